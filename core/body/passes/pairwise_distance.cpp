// SPDX-License-Identifier: Apache-2.0
#include "core/body/passes/pairwise_distance.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "core/body/passes/rewriting.h"

namespace llmtrain::body {
namespace {

struct PairwiseDistance {
  TensorId x = 0, y = 0;
  std::vector<std::size_t> steps{};  // ascending, those that nothing else needs
};

class Matcher {
 public:
  Matcher(const Body& body, const Uses& uses) : body_(body), uses_(uses) {}

  std::optional<PairwiseDistance> match(std::size_t step) const {
    const auto* reduce = std::get_if<Reduce>(&body_.steps[step].primitive);
    if (reduce == nullptr || reduce->kind != ReduceKind::sum) return std::nullopt;
    const std::optional<std::size_t> square = made_for(body_.steps[step].inputs[0], 1);
    if (!square || !is(*square, ElementwiseKind::multiply)) return std::nullopt;
    const std::vector<TensorId>& factors = body_.steps[*square].inputs;
    if (factors[0] != factors[1]) return std::nullopt;
    const std::optional<std::size_t> sum = made_for(factors[0], 2);
    if (!sum || !is(*sum, ElementwiseKind::add) || body_.steps[*sum].inputs.size() != 2) return std::nullopt;
    const std::optional<std::size_t> repeated = made_for(body_.steps[*sum].inputs[0], 1);
    const std::optional<std::size_t> negative = uses_.maker(body_.steps[*sum].inputs[1]);
    if (!repeated || !negative || !is_repeat(*repeated) || !is_negative(*negative)) return std::nullopt;
    PairwiseDistance found{
        body_.steps[*repeated].inputs[0], body_.steps[*negative].inputs[0], {*repeated, *sum, *square, step}};
    if (uses_.readers(body_.steps[*negative].output) == 1) found.steps.push_back(*negative);
    std::ranges::sort(found.steps);
    return are_pairs(found, body_.steps[step]) ? std::optional(found) : std::nullopt;
  }

 private:
  // Who makes a tensor that so many operands alone are.
  std::optional<std::size_t> made_for(TensorId tensor, std::size_t operands) const {
    return uses_.readers(tensor) == operands ? uses_.maker(tensor) : std::nullopt;
  }
  bool is(std::size_t step, ElementwiseKind kind) const {
    const auto* elementwise = std::get_if<Elementwise>(&body_.steps[step].primitive);
    return elementwise != nullptr && elementwise->kind == kind;
  }
  bool is_repeat(std::size_t step) const {
    const auto* rearrange = std::get_if<Rearrange>(&body_.steps[step].primitive);
    return rearrange != nullptr && rearrange->kind == Rearrange::Kind::repeat;
  }
  bool is_negative(std::size_t step) const {
    return is(step, ElementwiseKind::scale) && std::get<Elementwise>(body_.steps[step].primitive).factor == -1;
  }
  // Whether both have what is summed, and together what the result has.
  bool are_pairs(const PairwiseDistance& found, const Step& reduce) const {
    const BodyTensor &x = body_.tensors[found.x], &y = body_.tensors[found.y];
    return std::ranges::all_of(body_.tensors[reduce.inputs[0]].axes, [&](AxisId axis) {
      return body_.tensors[reduce.output].has(axis) ? x.has(axis) || y.has(axis) : x.has(axis) && y.has(axis);
    });
  }

  const Body& body_;
  const Uses& uses_;
};

// Σ of the squares of a tensor over the axes that the result lacks.
TensorId write_squares(Rewriting& rewriting, const Body& body, TensorId x, const BodyTensor& result) {
  const std::vector<AxisId>& axes = body.tensors[x].axes;
  const TensorId squares = rewriting.make(Elementwise{ElementwiseKind::multiply}, {x, x}, axes, "squares");
  std::vector<AxisId> left;
  for (const AxisId axis : axes)
    if (result.has(axis)) left.push_back(axis);
  return rewriting.make(Reduce{ReduceKind::sum}, {squares}, std::move(left), "squared_lengths");
}

}  // namespace

Body with_products_of_pairs(const Body& body) {
  Rewriting rewriting(body);
  const Uses uses(body);
  const Matcher matcher(body, uses);
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    const std::optional<PairwiseDistance> found = matcher.match(i);
    if (!found) continue;
    const BodyTensor& result = body.tensors[body.steps[i].output];
    rewriting.replace(found->steps);
    const TensorId of_x = write_squares(rewriting, body, found->x, result);
    const TensorId of_y = write_squares(rewriting, body, found->y, result);
    // So that the product's elements lie in the order of the result's axes.
    const bool begins_with_x = !result.axes.empty() && body.tensors[found->x].has(result.axes.front());
    const TensorId left = begins_with_x ? found->x : found->y, right = begins_with_x ? found->y : found->x;
    const TensorId both = rewriting.make(Product{}, {left, right}, result.axes, "product");
    const TensorId twice = rewriting.make(Elementwise{ElementwiseKind::scale, -2}, {both}, result.axes, "scaled");
    rewriting.make(Elementwise{ElementwiseKind::add}, {twice, of_x, of_y}, body.steps[i].output);
  }
  return std::move(rewriting).done();
}

}  // namespace llmtrain::body

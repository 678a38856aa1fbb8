// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <map>
#include <utility>

#include "core/body/run/body_run.h"
#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"
#include "kernels/accumulation_type.h"

namespace llmtrain::body {
namespace {

struct Part {
  std::int64_t begin = 0, extent = 0;
};

std::vector<Part> parts_of(const Chunked& chunked, std::int64_t extent) {
  const std::int64_t piece = piece_extent(chunked, extent);
  std::vector<Part> parts;
  for (std::int64_t begin = 0; begin < extent; begin += piece)
    parts.push_back({begin, std::min(piece, extent - begin)});
  // The result of nothing has a type.
  if (parts.empty()) parts.push_back({0, 0});
  return parts;
}

// A view of the elements of a part, or all of a tensor that lacks the axis.
at::Tensor view_of(const at::Tensor& tensor, const BodyTensor& described, AxisId axis, const Part& part) {
  return described.has(axis) ? tensor.narrow(StepShape::place_in(described, axis), part.begin, part.extent) : tensor;
}

// Documents of the sequences of a part.
std::vector<kernels::PositionRun> runs_within(std::span<const kernels::PositionRun> runs, std::int64_t begin,
                                              std::int64_t end) {
  std::vector<kernels::PositionRun> within;
  for (const kernels::PositionRun& run : runs)
    if (run.begin >= begin && run.begin + run.length <= end) within.push_back({run.begin - begin, run.length});
  return within;
}

// One piece after another, as bodies of their own. Inner tensors that are read have the numbers of the operands'
// places.
class Pieces {
 public:
  Pieces(const Chunked& chunked, const StepContext& context, Keeping keeping)
      : chunked_(chunked), context_(context), keeping_(keeping) {}

  // Moves on to the part.
  const BodyRun& at(const Part& part) {
    part_ = part;
    pass_ = context_.pass;
    // Elements that are drawn at random are counted along the outermost axis.
    pass_.first_sample += part.begin;
    cut_documents();
    const auto found = runs_.find(part.extent);
    if (found != runs_.end()) return found->second;
    Body piece = with_extents(*chunked_.body, {{chunked_.axis, part.extent}});
    return runs_.try_emplace(part.extent, std::move(piece), keeping_, *context_.site_of).first->second;
  }
  const BodyPass& pass() const { return pass_; }
  const Body& body() const { return *chunked_.body; }

  at::Tensor part(const at::Tensor& tensor, TensorId id) const {
    return view_of(tensor, body().tensors[id], chunked_.axis, part_).contiguous();
  }
  // Puts what one piece has made of a tensor where it belongs in the whole. Sums are in the type of sums.
  void put(at::Tensor& whole, const at::Tensor& made, TensorId id) const {
    const BodyTensor& described = body().tensors[id];
    if (!described.has(chunked_.axis)) {
      whole = whole.defined() ? whole.add_(made) : made.to(kernels::accumulation_type(made), false, true);
      return;
    }
    if (!whole.defined()) whole = at::empty(body().shape_of(id), made.options());
    view_of(whole, described, chunked_.axis, part_).copy_(made);
  }
  // The same of a parameter that has the axis, which several steps of a piece may read.
  void add(at::Tensor& whole, const at::Tensor& made, TensorId id) const {
    if (!whole.defined()) whole = at::zeros(body().shape_of(id), made.options());
    view_of(whole, body().tensors[id], chunked_.axis, part_).add_(made);
  }
  std::vector<at::Tensor> parts(const StepTensors& tensors, BodyTensor::Role role) const {
    std::vector<at::Tensor> result;
    for (const TensorId id : body().tensors_of(role)) result.push_back(part(tensors.inputs[id], id));
    return result;
  }
  bool has_axis(TensorId id) const { return body().tensors[id].has(chunked_.axis); }

 private:
  // Whether the axis is that of sequences of such tokens.
  bool are_sequences_of(AxisId tokens) const {
    const auto sees = [&](TensorId id) {
      const std::vector<AxisId>& axes = body().tensors[id].axes;
      return axes[0] == chunked_.axis && axes[1] == tokens;
    };
    return std::ranges::any_of(body().steps, [&](const Step& step) {
      return std::holds_alternative<Attention>(step.primitive) && (sees(step.inputs[0]) || sees(step.inputs[1]));
    });
  }
  // Where pieces are of sequences, to whose documents attention keeps. The runs outlive the pass of the piece.
  void cut_documents() {
    runs_of_part_.clear();
    runs_of_part_.resize(pass_.documents.size());
    for (std::size_t i = 0; i < pass_.documents.size(); ++i) {
      BodyPass::Documents& of = pass_.documents[i];
      if (of.documents.runs.empty() || of.tokens == chunked_.axis) continue;
      if (!are_sequences_of(of.tokens)) continue;
      const std::int64_t tokens = body().axes[of.tokens].extent;
      runs_of_part_[i] = runs_within(of.documents.runs, part_.begin * tokens, (part_.begin + part_.extent) * tokens);
      of.documents = {runs_of_part_[i], {}, nullptr};
    }
  }

  const Chunked& chunked_;
  const StepContext& context_;
  Keeping keeping_;
  Part part_{};
  BodyPass pass_{};
  std::vector<std::vector<kernels::PositionRun>> runs_of_part_;
  std::map<std::int64_t, BodyRun> runs_;  // by extent
};

class PieceParameters final : public BodyParameters {
 public:
  PieceParameters(const Pieces& pieces, const StepTensors& tensors, const StepContext& context)
      : pieces_(pieces), tensors_(tensors), context_(context), gradients(tensors.inputs.size()) {}

  at::Tensor weight(TensorId parameter) const override { return pieces_.part(tensors_.inputs[parameter], parameter); }
  void add_gradient(TensorId parameter, const at::Tensor& gradient) override {
    if (pieces_.has_axis(parameter))
      pieces_.add(gradients[parameter], gradient, parameter);
    else if (context_.add_gradient != nullptr)
      (*context_.add_gradient)(parameter, gradient);
    else
      pieces_.put(gradients[parameter], gradient, parameter);
  }

 private:
  const Pieces& pieces_;
  const StepTensors& tensors_;
  const StepContext& context_;

 public:
  std::vector<at::Tensor> gradients;  // by place
};

}  // namespace

StepResult forward(const Chunked& chunked, const StepTensors& tensors, const StepContext& context) {
  Pieces pieces(chunked, context, Keeping::inputs);
  const PieceParameters parameters(pieces, tensors, context);
  const TensorId result = chunked.body->outputs[0];
  at::Tensor whole;
  at::ScalarType type{};
  for (const Part& part : parts_of(chunked, context.shape.extent(chunked.axis))) {
    const BodyRun& run = pieces.at(part);
    const std::vector<at::Tensor> inputs = pieces.parts(tensors, BodyTensor::Role::input),
                                  fields = pieces.parts(tensors, BodyTensor::Role::field);
    const at::Tensor made = run.forward(inputs, fields, parameters, pieces.pass()).values[0];
    type = made.scalar_type();
    pieces.put(whole, made, result);
  }
  return {whole.to(type), {}};
}

StepGradients backward(const Chunked& chunked, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context) {
  Pieces pieces(chunked, context, Keeping::all);
  PieceParameters parameters(pieces, tensors, context);
  const TensorId result = chunked.body->outputs[0];
  const std::vector<TensorId> inputs = chunked.body->tensors_of(BodyTensor::Role::input);
  for (const Part& part : parts_of(chunked, context.shape.extent(chunked.axis))) {
    const BodyRun& run = pieces.at(part);
    const std::vector<at::Tensor> fields = pieces.parts(tensors, BodyTensor::Role::field);
    BodyTensors kept =
        run.forward(pieces.parts(tensors, BodyTensor::Role::input), fields, parameters, pieces.pass()).kept;
    std::vector<at::Tensor> made =
        run.backward({pieces.part(dy, result)}, std::move(kept), fields, parameters, pieces.pass());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      pieces.put(parameters.gradients[inputs[i]], std::exchange(made[i], {}), inputs[i]);
  }
  StepGradients gradients(context.shape.inputs());
  for (std::size_t place = 0; place < gradients.size(); ++place)
    if (at::Tensor& gradient = parameters.gradients[place]; gradient.defined() && context.shape.has_gradient(place))
      gradients[place] = typed_gradient(context, place, dy, std::exchange(gradient, {}));
  return gradients;
}

}  // namespace llmtrain::body

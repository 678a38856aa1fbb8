// SPDX-License-Identifier: Apache-2.0
#include "core/body/passes/product_order.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include "core/body/passes/rewriting.h"

namespace llmtrain::body {
namespace {

using Axes = std::vector<AxisId>;
using Subset = std::uint32_t;  // of operands, a bit each

constexpr std::size_t most_operands = 12;

// Products whose results are read by another one of them alone, but for the last one's.
struct ProductTree {
  std::vector<std::size_t> steps;  // ascending
  std::vector<TensorId> operands;
};

void gather_operands(const Body& body, const Uses& uses, std::size_t step, ProductTree& tree) {
  for (const TensorId input : body.steps[step].inputs) {
    const std::optional<std::size_t> maker = uses.maker(input);
    const bool belongs =
        maker && std::holds_alternative<Product>(body.steps[*maker].primitive) && uses.readers(input) == 1;
    if (belongs)
      gather_operands(body, uses, *maker, tree);
    else
      tree.operands.push_back(input);
  }
  tree.steps.push_back(step);
}

// The cheapest ways to multiply subsets of the operands.
class Orders {
 public:
  Orders(const Body& body, const ProductTree& tree, const Axes& of_result, ProductCost cost)
      : body_(body), tree_(tree), of_result_(of_result), cost_(cost), best_(std::size_t{1} << tree.operands.size()) {
    for (Subset all = 1; all < best_.size(); ++all) settle(all);
  }

  Subset all() const { return static_cast<Subset>(best_.size() - 1); }
  // The first of the two factors of the product of a subset.
  Subset factor(Subset all) const { return best_[all].factor; }
  std::tuple<double, double> cost() const { return key(best_.back().flops, best_.back().elements); }
  // What comes first counts most.
  std::tuple<double, double> key(double flops, double elements) const {
    return cost_ == ProductCost::flops ? std::tuple(flops, elements) : std::tuple(elements, flops);
  }
  // Those that the product of the subset has: of the result, or of operands that are left.
  Axes axes_of(Subset subset) const {
    Axes axes;
    for (AxisId axis = 0; axis < body_.axes.size(); ++axis) {
      const bool is_needed =
          std::ranges::find(of_result_, axis) != of_result_.end() || has(static_cast<Subset>(all() & ~subset), axis);
      if (is_needed && has(subset, axis)) axes.push_back(axis);
    }
    return axes;
  }

 private:
  struct Way {
    double flops = 0, elements = 0;
    Subset factor = 0;
  };

  bool has(Subset subset, AxisId axis) const {
    for (std::size_t i = 0; i < tree_.operands.size(); ++i)
      if ((subset >> i & 1U) != 0 && body_.tensors[tree_.operands[i]].has(axis)) return true;
    return false;
  }
  double extent(const Axes& axes) const {
    double product = 1;
    for (const AxisId axis : axes) product *= static_cast<double>(body_.axes[axis].extent);
    return product;
  }
  void settle(Subset subset) {
    if (std::popcount(subset) == 1) return;
    std::optional<Way> best;
    const double made = subset == all() ? 0 : extent(axes_of(subset));
    // Each pair once: the factor has the lowest operand.
    const Subset lowest = subset & -subset;
    for (Subset factor = (subset - 1) & subset; factor != 0; factor = (factor - 1) & subset) {
      if ((factor & lowest) == 0) continue;
      const Subset other = subset & ~factor;
      Axes axes = axes_of(factor);
      for (const AxisId axis : axes_of(other))
        if (std::ranges::find(axes, axis) == axes.end()) axes.push_back(axis);
      const Way way{best_[factor].flops + best_[other].flops + 2 * extent(axes),
                    best_[factor].elements + best_[other].elements + made, factor};
      if (!best || key(way.flops, way.elements) < key(best->flops, best->elements)) best = way;
    }
    best_[subset] = *best;
  }

  const Body& body_;
  const ProductTree& tree_;
  const Axes& of_result_;
  ProductCost cost_;
  std::vector<Way> best_;
};

double flops_of(const Body& body, const ProductTree& tree) {
  double flops = 0;
  for (const std::size_t step : tree.steps) flops += work(body, body.steps[step]).forward_flops;
  return flops;
}

double elements_made(const Body& body, const ProductTree& tree) {
  double elements = 0;
  for (const std::size_t step : tree.steps)
    if (step != tree.steps.back()) elements += elements_of(body, body.steps[step].output);
  return elements;
}

class Writer {
 public:
  Writer(Rewriting& rewriting, const ProductTree& tree, const Orders& orders, const Step& last)
      : rewriting_(rewriting), tree_(tree), orders_(orders), last_(last) {}

  TensorId write(Subset subset) {
    if (std::popcount(subset) == 1) return tree_.operands[static_cast<std::size_t>(std::countr_zero(subset))];
    const Subset factor = orders_.factor(subset);
    const TensorId left = write(factor), right = write(subset & ~factor);
    if (subset == orders_.all()) {
      rewriting_.make(Product{}, {left, right}, last_.output);
      return last_.output;
    }
    return rewriting_.make(Product{}, {left, right}, orders_.axes_of(subset), "product");
  }

 private:
  Rewriting& rewriting_;
  const ProductTree& tree_;
  const Orders& orders_;
  const Step& last_;
};

}  // namespace

Body with_least_products(const Body& body, ProductCost cost) {
  Rewriting rewriting(body);
  const Uses uses(body);
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    const Step& step = body.steps[i];
    if (!std::holds_alternative<Product>(step.primitive) || uses.is_factor(step.output)) continue;
    ProductTree tree;
    gather_operands(body, uses, i, tree);
    if (tree.steps.size() < 2 || tree.operands.size() > most_operands) continue;
    const Orders orders(body, tree, body.tensors[step.output].axes, cost);
    if (orders.cost() >= orders.key(flops_of(body, tree), elements_made(body, tree))) continue;
    rewriting.replace(tree.steps);
    Writer(rewriting, tree, orders, step).write(orders.all());
  }
  return std::move(rewriting).done();
}

}  // namespace llmtrain::body

// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/attention.h"

#include <cstdint>
#include <vector>

#include "core/body/step_shape.h"

namespace llmtrain::body {
namespace {

constexpr std::size_t query = 0, key = 1, bias = 3;
constexpr std::size_t batch_axis = 0, token_axis = 1, head_axis = 2, feature_axis = 3;

AxisId axis_of(const StepShape& shape, std::size_t place, std::size_t axis) { return shape.input(place).axes[axis]; }

double extent_of(const StepShape& shape, std::size_t place, std::size_t axis) {
  return static_cast<double>(shape.extent(axis_of(shape, place, axis)));
}

double score_rows(const StepShape& shape) {
  return extent_of(shape, query, batch_axis) * extent_of(shape, query, head_axis) * extent_of(shape, query, token_axis);
}

double scores(const StepShape& shape) { return score_rows(shape) * extent_of(shape, key, token_axis); }

void check_axes(const StepShape& shape) {
  for (std::size_t i = 0; i < bias; ++i)
    if (shape.input(i).axes.size() != 4)
      shape.refuse("queries, keys and values are [sequences, tokens, heads, features]");
  if (shape.output().axes != shape.input(query).axes) shape.refuse("the result has the queries' axes");
  if (shape.input(2).axes != shape.input(key).axes) shape.refuse("keys and values have the same axes");
  for (const std::size_t axis : {batch_axis, feature_axis})
    if (axis_of(shape, query, axis) != axis_of(shape, key, axis))
      shape.refuse("queries and keys have the same sequences and features");
}

// Queries and keys of one label have two in the bias, since no tensor has an axis twice. Of causal attention there may
// be further keys, which passes before have left.
void check_bias(const StepShape& shape, bool is_causal, AxisId of_queries, AxisId of_keys) {
  const std::vector<AxisId>& axes = shape.input(bias).axes;
  const auto has_all = [&](AxisId axis) {
    if (of_queries != of_keys) return axis == of_keys;
    return shape.extent(axis) == shape.extent(of_keys) || (is_causal && shape.extent(axis) > shape.extent(of_keys));
  };
  const bool has_keys = axes.size() == 3 && has_all(axes[2]);
  if (!has_keys || axes[0] != axis_of(shape, query, head_axis) || axes[1] != of_queries)
    shape.refuse("a bias is [heads, queries, keys], each with a label of its own");
}

}  // namespace

bool stores_scores(const Attention& attention, const StepShape& shape) {
  return attention.stores_scores || attention.dropout > 0 || shape.inputs() > bias;
}

void check(const Attention& attention, const StepShape& shape) {
  shape.require_inputs(3, 4);
  check_axes(shape);
  const std::int64_t heads = shape.extent(axis_of(shape, query, head_axis));
  const std::int64_t groups = shape.extent(axis_of(shape, key, head_axis));
  if (groups == 0 || heads % groups != 0) shape.refuse("key heads divide the query heads");
  const AxisId of_queries = axis_of(shape, query, token_axis), of_keys = axis_of(shape, key, token_axis);
  if (attention.is_causal && shape.extent(of_queries) != shape.extent(of_keys))
    shape.refuse("causal attention has a key for each query");
  if (shape.inputs() > bias) check_bias(shape, attention.is_causal, of_queries, of_keys);
  if (!(attention.dropout >= 0 && attention.dropout < 1)) shape.refuse("a probability is at least 0 and below 1");
}

AxisUse axis_use(const Attention& attention, const StepShape& shape, AxisId axis) {
  if (axis == axis_of(shape, query, batch_axis)) return AxisUse::independent;
  const bool is_of_queries_alone = !shape.input_has(key, axis) && shape.input_has(query, axis);
  if (axis == axis_of(shape, query, token_axis))
    return is_of_queries_alone && !attention.is_causal ? AxisUse::independent : AxisUse::whole;
  // A part of grouped heads reads a part of the keys' heads, which have another label.
  if (axis == axis_of(shape, query, head_axis)) return is_of_queries_alone ? AxisUse::whole : AxisUse::independent;
  return AxisUse::whole;
}

// Two products, of queries with keys and of probabilities with values; the causal half is counted as well, as papers
// do. What stores its scores makes them in the type of sums; its backward has gradients of probabilities and of scores.
Work work(const Attention& attention, const StepShape& shape) {
  const ProductSize size{extent_of(shape, query, token_axis), extent_of(shape, key, token_axis),
                         extent_of(shape, query, feature_axis),
                         extent_of(shape, query, batch_axis) * extent_of(shape, query, head_axis)};
  const double read = shape.all_input_elements(), written = shape.output_elements();
  Work work{size, 2 * size.flops(), 4 * size.flops(), read + written, read + 2 * written + shape.gradient_elements()};
  if (stores_scores(attention, shape)) {
    work.forward_temporaries = scores(shape);
    work.backward_temporaries = 2 * scores(shape);
  }
  return work;
}

Kept kept(const Attention& attention, const StepShape& shape) {
  if (!shape.output().has_gradient) return {};
  Kept result{.inputs = {0, 1, 2}, .output = true};
  if (shape.inputs() > bias) result.inputs.push_back(bias);
  if (stores_scores(attention, shape))
    result.statistics.push_back({"probabilities", scores(shape), Statistic::Type::computed, true});
  else
    result.statistics.push_back({"log_sum_exp", score_rows(shape)});
  return result;
}

}  // namespace llmtrain::body

// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operator_writer.h"

#include <algorithm>

namespace llmtrain {
namespace {

constexpr double statistic_bytes = 4;  // fp32

}  // namespace

OperatorWriter::OperatorWriter(const Graph& graph, std::size_t block, const PassSetting& setting)
    : graph_(graph), block_(block), setting_(setting), shape_(local_shape(graph.model, setting)) {}

Operator& OperatorWriter::add(std::string name, OperatorKind kind) {
  using Repetition = Operator::Repetition;
  // Recompute repeats layers only; embedding and head run once.
  const bool is_layer = graph_.blocks[block_].kind == BlockKind::layer;
  return operators_.emplace_back(
      Operator{.name = std::move(name), .kind = kind, .repetition = is_layer ? Repetition::full : Repetition::never});
}

Operator& OperatorWriter::linear(std::string name, const MatrixProduct& product,
                                 std::initializer_list<ParameterRole> weights) {
  Operator& item = add(std::move(name), OperatorKind::product);
  item.product = product;
  item.uses_fp8 = setting_.uses_fp8();
  // A multiply-add counts as two operations.
  item.flops = 2 * product.batch * product.rows * product.columns * product.inner;
  for (const ParameterRole role : weights) {
    if (!graph_.has_parameter(block_, role)) continue;
    const std::int64_t elements = local_elements(model(), graph_.parameter(block_, role), setting_.shards);
    const double bytes = shape_.element * static_cast<double>(elements);
    // A weight gradient is computed in the compute type and then scaled to FP8, one weight at a time, so the largest
    // counts.
    if (item.uses_fp8) item.unscaled_weight_gradient = std::max(item.unscaled_weight_gradient, bytes);
  }
  return item;
}

Operator& OperatorWriter::elementwise(std::string name, double forward_elements, double backward_elements) {
  Operator& item = add(std::move(name), OperatorKind::elementwise);
  item.forward.elements = forward_elements;
  item.backward.elements = backward_elements;
  return item;
}

// The forward reads and writes; the backward reads both operands of the forward and writes one.
Operator& OperatorWriter::norm(std::string name) {
  return elementwise(std::move(name), 2 * shape_.residual(), 3 * shape_.residual());
}

Operator& OperatorWriter::residual(std::string name) {
  const double elements = shape_.residual();
  // Forward: reads branch and residual stream, writes the sum. The backward of the addition copies nothing; that of
  // dropout reads and writes the gradient.
  Operator& item = elementwise(std::move(name), 3 * elements, drops() ? 2 * elements : 0);
  // The gradient at the output stays alive, and dropout makes another one beside it.
  item.backward_working = shape_.element * elements * (drops() ? 2 : 1);
  if (!drops()) return item;
  item.forward.mask_bytes = item.backward.mask_bytes = dropout_mask_bytes * elements;
  return item;
}

void OperatorWriter::save(Operator& item, std::string name, double bytes, Recompute kept_through) {
  if (bytes > 0) item.saved.push_back({std::move(name), bytes, kept_through});
}

double OperatorWriter::statistics_bytes(double rows) const {
  // Layer norm keeps mean and reciprocal deviation, root-mean-square norm only the latter.
  return statistic_bytes * rows * (model().norm == NormKind::layernorm ? 2 : 1);
}

Exchange OperatorWriter::exchange(Collective collective, Direction direction, const char* tensors, double bytes) const {
  return {
      .collective = collective, .axis = RankAxis::tensor, .direction = direction, .tensors = tensors, .bytes = bytes};
}

// With whole rows nothing is sent in the forward, and the gradients of the inputs are summed. With sequence parallelism
// (Korthikanti et al., arXiv 2205.05198) rows are gathered, in FP8 where the product takes FP8, and gathered again for
// the weight's gradient instead of being kept.
void OperatorWriter::enter_features(Operator& item) const {
  const double bytes = shape_.element * shape_.tokens * shape_.hidden;
  if (!setting_.splits_sequence) {
    item.exchanges.push_back(exchange(Collective::all_reduce, Direction::backward, "activations", bytes));
    return;
  }
  Exchange gather = exchange(Collective::all_gather, Direction::forward, "activations", bytes);
  gather.compression = item.uses_fp8 ? shape_.element : 1;
  gather.exposure = Exposure::beside_product;
  Exchange scatter = exchange(Collective::reduce_scatter, Direction::backward, "activations", bytes);
  scatter.exposure = Exposure::beside_product;
  Exchange again = gather;
  again.direction = Direction::backward;
  again.exposure = Exposure::gathered_again;
  item.exchanges.insert(item.exchanges.end(), {gather, scatter, again});
  hold_gathered_rows(item);
}

void OperatorWriter::hold_gathered_rows(Operator& item) const {
  if (!setting_.splits_sequence) return;
  const double bytes = shape_.element * shape_.tokens * shape_.hidden;
  item.forward_working += bytes;
  item.backward_working += 2 * bytes;
}

// The mirror image: partial sums are added over the ranks in the forward, and the gradient is gathered where the sum
// was scattered. With whole rows every rank has the whole gradient already.
void OperatorWriter::leave_features(Operator& item) const {
  const double bytes = shape_.element * shape_.tokens * shape_.hidden;
  if (!setting_.splits_sequence) {
    item.exchanges.push_back(exchange(Collective::all_reduce, Direction::forward, "activations", bytes));
    return;
  }
  Exchange scatter = exchange(Collective::reduce_scatter, Direction::forward, "activations", bytes);
  scatter.exposure = Exposure::beside_product;
  Exchange gather = exchange(Collective::all_gather, Direction::backward, "activations", bytes);
  gather.compression = item.uses_fp8 ? shape_.element : 1;
  gather.exposure = Exposure::beside_product;
  item.exchanges.insert(item.exchanges.end(), {scatter, gather});
}

}  // namespace llmtrain

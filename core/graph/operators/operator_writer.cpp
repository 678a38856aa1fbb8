// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operators/operator_writer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace llmtrain {

OperatorWriter::OperatorWriter(const Graph& graph, std::size_t block, const PassSetting& setting)
    : graph_(graph),
      block_(block),
      setting_(setting),
      shape_(local_shape(graph.blocks[block].hidden_size(), setting)) {}

Operator& OperatorWriter::add(std::string name, OperatorKind kind) {
  using Repetition = Operator::Repetition;
  const bool runs_again = graph_.blocks[block_].runs_again();
  return operators_.emplace_back(Operator{.name = std::move(name),
                                          .half = half_,
                                          .module = module_,
                                          .kind = kind,
                                          .repetition = runs_again ? Repetition::full : Repetition::never});
}

Operator& OperatorWriter::product(std::string name, const MatrixProduct& product, std::string_view weight) {
  return add_product(std::move(name), product, is_frozen(weight));
}

Operator& OperatorWriter::add_product(std::string name, const MatrixProduct& product, bool is_frozen) {
  Operator& item = add(std::move(name), OperatorKind::product);
  item.product = product;
  item.has_weight_gradient = !is_frozen;
  item.flops = product.flops();
  if (widens_fp16()) hold_fp32_copies(item);
  return item;
}

std::span<const Parameter> OperatorWriter::weights_from(std::string_view first) const {
  const std::span all(graph_.parameters);
  const std::size_t begin = graph_.index_of(graph_.parameter(block_, first));
  std::size_t end = begin + 1;
  while (end < all.size() && all[end].joined != Joined::none) ++end;
  return all.subspan(begin, end - begin);
}

bool OperatorWriter::is_frozen(std::string_view parameter) const {
  return std::ranges::any_of(weights_from(parameter), &Parameter::is_frozen);
}

bool OperatorWriter::takes_fp8(std::string_view weight) const {
  return setting_.numbers.uses_fp8() && graph_.parameter(block_, weight).takes_fp8();
}

double OperatorWriter::input_bytes(std::string_view weight) const {
  return takes_fp8(weight) ? shape_.fp8_input : shape_.element;
}

Operator& OperatorWriter::linear(std::string name, const MatrixProduct& product, std::string_view weight) {
  // First, since the caller goes on with the product.
  for (const Parameter& matrix : weights_from(weight)) add_adapter(name, product, matrix);
  Operator& item = grouped_linear(std::move(name), product, weight);
  if (is_cuda()) item.backward_scratch = bias_scratch(product, weight);
  if (item.uses_fp8 && setting_.numbers.agrees_on_scales) agree_on_scales(item);
  if (item.uses_fp8 && is_own()) hold_cast_gradient(item);
  return item;
}

double OperatorWriter::bias_scratch(const MatrixProduct& product, std::string_view weight) const {
  constexpr double rows_of_a_piece = 128;  // kernels/cuda/column_rows.h
  const std::string bias = std::string(weight.substr(0, weight.rfind('.'))) + ".bias";
  if (!graph_.has_parameter(block_, bias) || is_frozen(bias)) return 0;
  return fp32_bytes * std::ceil(product.rows / rows_of_a_piece) * product.columns;
}

// The products with A and B, and in place of the matrix's product the addition of theirs to its result. The backward
// makes the product with A again, which is little, and is not counted.
void OperatorWriter::add_adapter(const std::string& name, const MatrixProduct& product, const Parameter& matrix) {
  if (!matrix.adapter) return;
  const Parameter &a = graph_.parameters[matrix.adapter->a], &b = graph_.parameters[matrix.adapter->a + 1];
  const auto rank = static_cast<double>(b.shape.back());
  const double features = static_cast<double>(local_elements(b, setting_.shards)) / rank;
  const std::string adapter = name + "_lora_" + std::to_string(operators_.size());
  const bool drops = matrix.adapter->dropout > 0;
  if (drops) add_adapter_dropout(adapter + "_dropout", product.rows * product.inner);
  if (matrix.adapter->has_magnitude) {
    const bool meets = matrix.split.axis == 1 && setting_.shards.tensor > 1;
    add_magnitude(adapter + "_magnitude", {product.rows, features, product.inner}, drops, meets);
  }
  if (!is_own()) add_adapter_passes(adapter, product.rows * product.inner, product.rows * features);
  add_product(adapter + "_a", {product.rows, rank, product.inner}, a.is_frozen);
  Operator& output = add_product(adapter + "_b", {product.rows, features, rank}, b.is_frozen);
  const double hidden = shape_.element * product.rows * rank, result = shape_.element * product.rows * features;
  output.forward_working = hidden + result;
  output.backward_working = 2 * hidden + result;
}

// The lengths of the rows are found by two passes over the matrix, and kept, each a pair of numbers per feature; ranks
// that have parts of the rows add up squares. The backward makes the product with the matrix again, for which plans
// know no model FLOPs, as for recompute. Dropout needs a product of its own, besides.
void OperatorWriter::add_magnitude(const std::string& name, const MatrixProduct& product, bool drops, bool meets) {
  const double result = shape_.element * product.rows * product.columns;
  Operator& lengths = elementwise(name + "_lengths", 2 * product.columns * product.inner, 0);
  save(lengths, name, 2 * fp32_bytes * product.columns);
  if (meets) {
    const double bytes = 2 * fp32_bytes * product.columns;
    exchange(lengths, RankAxis::tensor, Collective::all_reduce, Direction::forward, "lengths of rows", bytes);
    lengths.received += bytes;
  }
  Operator& again = add_product(name + "_again", product, true);
  again.flops = 0;
  again.is_backward_alone = true;
  again.backward_working = 2 * result;
  if (drops) add_product(name + "_dropped", product, true).backward_working = result;
  Operator& scaling = elementwise(name, 2 * product.rows * product.columns, 5 * product.rows * product.columns);
  scaling.forward_working = drops ? result : 0;
}

// One pass over what goes in, and one over what comes out, in each direction; how many there are is the program's.
void OperatorWriter::add_adapter_passes(const std::string& name, double inputs, double outputs) {
  elementwise(name + "_casts", inputs, inputs).fused_pass = FusedPass::adapter_input;
  elementwise(name + "_sum", outputs, outputs).fused_pass = FusedPass::adapter_output;
}

// The forward reads and writes the input; the backward makes that again, and drops of the input's gradient.
void OperatorWriter::add_adapter_dropout(std::string name, double elements) {
  Operator& item = elementwise(std::move(name), 2 * elements, 4 * elements);
  item.forward.mask_bytes = mask_bytes(elements);
  item.backward.mask_bytes = 2 * mask_bytes(elements);
  item.forward_working = item.backward_working = shape_.element * elements;
  if (!is_own()) save(item, item.name + "_mask", dropout_mask_bytes * elements);
}

// Reads the packed numbers and writes as many of the compute type, which are there while the product runs. The backward
// does so again (Dettmers et al., arXiv 2305.14314, equation 5).
void OperatorWriter::unpack(const std::string& name, std::string_view weight) {
  double elements = 0;
  for (const Parameter& matrix : weights_from(weight))
    if (matrix.is_packed) elements += static_cast<double>(local_elements(matrix, setting_.shards));
  if (elements == 0) return;
  const double moved = elements * (1 + graph_.model.lora->nf4_bytes() / shape_.element);
  Operator& item = elementwise(name + "_unpacked", moved, moved);
  item.forward_scratch = item.backward_scratch = shape_.element * elements;
}

Operator& OperatorWriter::grouped_linear(std::string name, const MatrixProduct& product, std::string_view weight) {
  unpack(name, weight);
  Operator& item = this->product(std::move(name), product, weight);
  const std::vector<std::size_t>& parameters = graph_.blocks[block_].parameters;
  const std::size_t first = graph_.index_of(graph_.parameter(block_, weight));
  item.matrix = static_cast<std::size_t>(std::ranges::find(parameters, first) - parameters.begin());
  if (!takes_fp8(weight)) return item;
  item.uses_fp8 = true;
  if (stores_fp8(setting_.numbers.fp8_level) && !is_own()) {
    for (const Parameter& matrix : weights_from(weight)) {
      if (!item.has_weight_gradient) continue;
      const std::int64_t elements = local_elements(matrix, setting_.shards);
      const double bytes = shape_.element * static_cast<double>(elements);
      // A weight gradient is computed in the compute type and then scaled to FP8, one weight at a time, so the largest
      // counts. In core/model it goes into a sum that becomes FP8 with the reduction.
      item.unscaled_weight_gradient = std::max(item.unscaled_weight_gradient, bytes);
    }
  }
  if (is_own()) hold_widened_operands(item);
  return item;
}

// A scale is the logical tensor's, so the ranks that hold parts of it agree on its maximum: the input's and the
// weight's together in the forward, the output gradient's in the backward. Weights that are stored in FP8 have scales.
void OperatorWriter::agree_on_scales(Operator& item) const {
  const double operands = setting_.numbers.fp8_level == Fp8Level::o3 ? 1 : 2;
  for (const auto& [axis, ranks] :
       {std::pair{RankAxis::tensor, setting_.shards.tensor}, std::pair{RankAxis::context, setting_.tokens.context}}) {
    if (ranks == 1) continue;
    exchange(item, axis, Collective::all_reduce, Direction::forward, "FP8 maxima", operands * fp32_bytes);
    item.received += operands * fp32_bytes;
    exchange(item, axis, Collective::all_reduce, Direction::backward, "FP8 maxima", fp32_bytes);
  }
}

// The CPU multiplies fp16 numbers in fp32: beside each product are operands and result in fp32.
void OperatorWriter::hold_fp32_copies(Operator& item) const {
  const auto& [rows, columns, inner, batch] = item.product;
  const double copies = fp32_bytes * batch * (rows * inner + inner * columns + rows * columns);
  item.forward_working += copies;
  item.backward_working += copies;
}

// core/model multiplies FP8 numbers in the compute type: beside each product are its widened operands.
void OperatorWriter::hold_widened_operands(Operator& item) const {
  const auto& [rows, columns, inner, batch] = item.product;
  const double input = shape_.element * batch * rows * inner, weight = shape_.element * batch * inner * columns;
  item.forward_working += input + weight;
  item.backward_working += std::max(input, weight);
}

void OperatorWriter::hold_cast_gradient(Operator& item) const {
  const auto& [rows, columns, inner, batch] = item.product;
  item.backward_working += (1 + shape_.element) * batch * rows * columns;
}

Operator& OperatorWriter::elementwise(std::string name, double forward_elements, double backward_elements) {
  Operator& item = add(std::move(name), OperatorKind::elementwise);
  item.forward.elements = forward_elements;
  item.backward.elements = backward_elements;
  return item;
}

// The forward reads and writes; the backward reads both operands of the forward and writes one.
Operator& OperatorWriter::norm(std::string name, const NormSettings& settings) {
  Operator& item = elementwise(std::move(name), 2 * shape_.residual(), 3 * shape_.residual());
  if (settings.kind == NormKind::rmsnorm) item.fused_pass = FusedPass::rms_norm;
  if (is_cuda()) item.backward_scratch = norm_scratch(settings.kind, shape_.split_tokens, shape_.hidden);
  return item;
}

double OperatorWriter::norm_scratch(NormKind kind, double rows, double width) {
  constexpr double rows_of_a_piece = 32;  // kernels/cuda/norm_kernels.h
  const double gradients = kind == NormKind::layernorm ? 2 : 1;
  return fp32_bytes * std::ceil(rows / rows_of_a_piece) * gradients * width;
}

Operator& OperatorWriter::residual(std::string name, double dropout) {
  const double elements = shape_.residual();
  const bool drops = dropout > 0;
  // Forward: reads branch and residual stream, writes the sum. The backward of the addition copies nothing; that of
  // dropout reads and writes the gradient.
  Operator& item = elementwise(std::move(name), 3 * elements, drops ? 2 * elements : 0);
  // The gradient at the output stays alive, and dropout makes another one beside it.
  item.backward_working = shape_.element * elements * (drops ? 2 : 1);
  if (!drops) return item;
  item.forward.mask_bytes = item.backward.mask_bytes = mask_bytes(elements);
  return item;
}

void OperatorWriter::save(Operator& item, std::string name, double bytes, Recompute kept_through) {
  if (bytes > 0) item.saved.push_back({std::move(name), bytes, kept_through});
}

void OperatorWriter::save_input(Operator& item) const {
  item.saved.push_back({"input", shape_.element * shape_.residual(), Recompute::full, 0});
}

double OperatorWriter::statistics_bytes(const NormSettings& norm, double rows) {
  // Layer norm keeps mean and reciprocal deviation, root-mean-square norm only the latter.
  return fp32_bytes * rows * (norm.kind == NormKind::layernorm ? 2 : 1);
}

Exchange& OperatorWriter::exchange(Operator& item, RankAxis axis, Collective collective, Direction direction,
                                   const char* tensors, double bytes) {
  return item.exchanges.emplace_back(
      Exchange{.collective = collective, .axis = axis, .direction = direction, .tensors = tensors, .bytes = bytes});
}

void OperatorWriter::exchange_rows(Operator& item, Direction gathers, const char* tensors, Exposure exposure,
                                   double features) const {
  const double bytes = shape_.element * shape_.tokens * features;
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    if (!setting_.tokens.have_split_rows()) {
      if (direction == gathers) continue;
      exchange(item, RankAxis::tensor, Collective::all_reduce, direction, tensors, bytes);
      if (direction == Direction::forward && setting_.shards.tensor > 1) item.received += bytes;
      continue;
    }
    const Collective collective = direction == gathers ? Collective::all_gather : Collective::reduce_scatter;
    Exchange& rows = exchange(item, RankAxis::tensor, collective, direction, tensors, bytes);
    // Rows are gathered in FP8 where the product takes FP8.
    if (direction == gathers && item.uses_fp8 && !setting_.numbers.keeps_compute_inputs)
      rows.compression = shape_.element / operand_bytes(setting_.numbers.format);
    rows.exposure = exposure;
    if (direction == Direction::forward)
      item.received +=
          direction == gathers ? bytes / rows.compression : shape_.element * shape_.split_tokens * features;
  }
}

// Rows that sequence parallelism (Korthikanti et al., arXiv 2205.05198) gathers are gathered again for the weight's
// gradient instead of being kept.
void OperatorWriter::enter_features(Operator& item, double features) const {
  const std::size_t gather = item.exchanges.size();
  exchange_rows(item, Direction::forward, "activations", Exposure::beside_product, features);
  if (!setting_.tokens.have_split_rows()) return;
  Exchange again = item.exchanges[gather];
  again.direction = Direction::backward;
  again.exposure = Exposure::gathered_again;
  item.exchanges.push_back(again);
  hold_gathered_rows(item, features);
}

void OperatorWriter::hold_gathered_rows(Operator& item, double features) const {
  if (!setting_.tokens.have_split_rows()) return;
  // FP8 is gathered as FP8; what core/model widens is counted with the product.
  const double rows = (is_own() && item.uses_fp8 ? 1 : shape_.element) * shape_.tokens * features;
  item.forward_working += rows;
  item.backward_working += 2 * rows;
}

void OperatorWriter::leave_features(Operator& item) const {
  exchange_rows(item, Direction::backward, "activations", Exposure::beside_product);
}

}  // namespace llmtrain

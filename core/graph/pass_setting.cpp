// SPDX-License-Identifier: Apache-2.0
#include "core/graph/pass_setting.h"

#include <algorithm>
#include <cmath>

namespace llmtrain {
namespace {

// Orders in which an FP8 input is kept. In most other programs that of the forward's product and that of the weight
// gradient's: FP8 tensor cores need the summed axis to be contiguous. Of 4 bits the forward's goes with its product.
double fp8_orders(const ProgramSetting& program, const NumberSetting& numbers) {
  const bool is_one = program.is_own() || !program.keeps_both_orders || numbers.format != ProductFormat::fp8;
  return is_one ? 1 : 2;
}

double divided(std::int64_t whole, std::int64_t parts) {
  return static_cast<double>(whole) / static_cast<double>(parts);
}

// How many of the tokens an expert gets if each has one choice, rounded up.
std::int64_t even_share(const MixtureOfExpertsRecipe& moe, std::int64_t tokens) {
  return (tokens + moe.experts - 1) / moe.experts;
}

}  // namespace

AttentionMethod attention_method(const AttentionSettings& attention, AttentionKernel kernel) {
  // Flash kernels have no dropout here.
  const bool is_math = kernel == AttentionKernel::math || attention.dropout > 0;
  return is_math ? AttentionMethod::math : AttentionMethod::flash;
}

double TokenSetting::here() const { return divided(all(), context); }

double TokenSetting::split() const { return here() / static_cast<double>(row_ranks); }

LocalShape local_shape(std::int64_t hidden_size, const PassSetting& setting) {
  const auto& [program, tokens, shards, numbers, exchange, recompute, chunks] = setting;
  LocalShape shape;
  shape.sequences = static_cast<double>(tokens.batch);
  shape.sequence_length = static_cast<double>(tokens.sequence_length);
  shape.tokens = tokens.here();
  shape.split_tokens = tokens.split();
  shape.hidden = static_cast<double>(hidden_size);
  shape.element = element_bytes(element_type(numbers.compute));
  shape.fp8_input =
      numbers.keeps_compute_inputs ? shape.element : numbers.operand_bytes() * fp8_orders(program, numbers);
  return shape;
}

// Chunks are large enough that adding to the weight's gradient once per chunk costs little beside the products. The
// sum moves 8 bytes per weight, a product of n rows computes 2n FLOPs: on an H100 they take equally long at n = 1,050
// (790 TFLOP/s and 3.0 TB/s, measured), on two cores of a processor at 100.
std::int64_t logits_chunk_rows(std::int64_t rows, std::int64_t vocabulary, std::int64_t bytes_per_element,
                               ComputeDevice device) {
  constexpr std::int64_t chunk_bytes = std::int64_t{128} << 20, gpu_bytes = std::int64_t{1} << 30, gpu_rows = 4096;
  const std::int64_t row_bytes = vocabulary * bytes_per_element;
  std::int64_t most = std::max<std::int64_t>(1, chunk_bytes / row_bytes);
  if (device == ComputeDevice::cuda) most = std::max(most, std::min(gpu_rows, gpu_bytes / row_bytes));
  const std::int64_t chunks = (rows + most - 1) / most;
  // Equal chunks instead of full ones and a small last one: every product then has about the same shape.
  return (rows + chunks - 1) / chunks;
}

std::optional<std::int64_t> expert_limit(const MixtureOfExpertsRecipe& moe, std::int64_t tokens) {
  if (moe.capacity_factor == 0) return std::nullopt;
  // The formula rounds twice: the share up, its product with the factor down.
  const auto share = static_cast<double>(even_share(moe, tokens));
  return moe.top_k * static_cast<std::int64_t>(std::floor(std::abs(moe.capacity_factor) * share));
}

std::int64_t expert_capacity(const MixtureOfExpertsRecipe& moe, std::int64_t tokens, std::int64_t fullest) {
  const auto limit = expert_limit(moe, tokens);
  if (moe.capacity_factor > 0) return *limit;
  const std::int64_t needed = std::max(fullest, moe.top_k * even_share(moe, tokens));
  return limit ? std::min(needed, *limit) : needed;
}

ExpertLoad expert_load(const MixtureOfExpertsRecipe& moe) {
  const auto top_k = static_cast<double>(moe.top_k);
  if (moe.capacity_factor == 0) return {top_k, 0};
  const double kept = top_k * std::min(1.0, std::abs(moe.capacity_factor));
  // Where buffers are no longer than needed, even routing leaves no place empty.
  return {kept, moe.capacity_factor > 0 ? top_k * std::max(0.0, moe.capacity_factor - 1) : 0};
}

}  // namespace llmtrain

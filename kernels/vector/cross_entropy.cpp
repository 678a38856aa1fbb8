// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/cross_entropy.h"

#include "kernels/vector/math.h"

namespace llmtrain::kernels::vector {
namespace {

// Exponentials added in fp32 before their sum joins the row's float64 sum: fp32 vectorises twice as wide, and 1024
// terms lose few bits, where a whole vocabulary would lose many.
constexpr std::int64_t block = 1024;

struct RowStatistics {
  float maximum;
  double sum;  // Σ exp(logit − maximum)
};

// −∞ for no columns, so that a rank without any does not affect the maximum over the slices.
template <class Value>
float maximum_of(const Value* logits, std::int64_t columns) {
  float maximum = -__builtin_inff();
#pragma omp simd reduction(max : maximum)
  for (std::int64_t i = 0; i < columns; ++i) {
    const float x = to_float(logits[i]);
    maximum = x > maximum ? x : maximum;
  }
  return maximum;
}

template <class Value>
float exponential_sum(const Value* logits, std::int64_t columns, float maximum) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < columns; ++i) sum += decay(to_float(logits[i]) - maximum);
  return sum;
}

template <class Value>
RowStatistics statistics_of(const Value* logits, std::int64_t columns) {
  // The maximum first, so that no exponential overflows.
  RowStatistics row{.maximum = maximum_of(logits, columns), .sum = 0};
  for (std::int64_t i = 0; i < columns; i += block) {
    row.sum += exponential_sum(logits + i, columns - i < block ? columns - i : block, row.maximum);
  }
  return row;
}

float loss_of(const RowStatistics& row, float target_logit) {
  // log Σ exp(x − maximum) + (maximum − target): both terms are at least 0, so nothing cancels.
  const double distance = static_cast<double>(row.maximum) - static_cast<double>(target_logit);
  return static_cast<float>(__builtin_log(row.sum) + distance);
}

template <class Value>
float loss(const Value* logits, std::int64_t columns, std::int64_t target) {
  return loss_of(statistics_of(logits, columns), to_float(logits[target]));
}

template <class Value>
float loss_and_gradient(Value* logits, std::int64_t columns, std::int64_t target, float scale) {
  const RowStatistics row = statistics_of(logits, columns);
  // Read before the loop overwrites the row with its gradient.
  const float target_logit = to_float(logits[target]);
  // One factor per row replaces a division per column.
  const auto factor = static_cast<float>(static_cast<double>(scale) / row.sum);
  for (std::int64_t i = 0; i < columns; ++i) {
    // The exponentials are evaluated again: keeping them from the sum would take fp32 memory for a whole row.
    store(logits[i], decay(to_float(logits[i]) - row.maximum) * factor);
  }
  // The target's entry is computed anew in fp32: subtracting from the stored one would round twice in bf16.
  store(logits[target], decay(target_logit - row.maximum) * factor - scale);
  return loss_of(row, target_logit);
}

template <class Value>
CrossEntropyStatistics statistics(const Value* logits, std::int64_t columns, std::int64_t target) {
  const RowStatistics row = statistics_of(logits, columns);
  // Another slice adds the target's logit; this one contributes 0 to the sum over slices.
  const bool is_here = target >= 0 && target < columns;
  return {row.maximum, static_cast<float>(row.sum), is_here ? to_float(logits[target]) : 0.0F};
}

template <class Value>
void gradient(Value* logits, std::int64_t columns, std::int64_t target, const CrossEntropyStatistics& whole,
              float scale) {
  // As in loss_and_gradient(), with the whole row's maximum and sum.
  const auto factor = static_cast<float>(static_cast<double>(scale) / static_cast<double>(whole.sum));
  for (std::int64_t i = 0; i < columns; ++i) store(logits[i], decay(to_float(logits[i]) - whole.maximum) * factor);
  if (target >= 0 && target < columns)
    store(logits[target], decay(whole.target_logit - whole.maximum) * factor - scale);
}

}  // namespace

template <>
CrossEntropyKernels cross_entropy_kernels_for<LLMTRAIN_VECTOR_LEVEL>() {
  return {.fp32 = {loss<float>, loss_and_gradient<float>, statistics<float>, gradient<float>},
          .bf16 = {loss<std::uint16_t>, loss_and_gradient<std::uint16_t>, statistics<std::uint16_t>,
                   gradient<std::uint16_t>}};
}

}  // namespace llmtrain::kernels::vector

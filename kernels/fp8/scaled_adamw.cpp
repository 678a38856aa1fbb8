// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <bit>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"
#include "kernels/fp8/adamw_parts.h"
#include "kernels/vector/adamw.h"

namespace llmtrain::kernels {
namespace {

void check_payload(const char* name, const at::Tensor& x, at::ScalarType type, const at::Device& device,
                   std::int64_t n) {
  check_size(name, x, n);
  if (x.device() != device || x.scalar_type() != type || !x.is_contiguous())
    throw Error(ExitCode::internal_error, std::string("adamw: scaled ") + name + " must be contiguous on " +
                                              device.str() + ", in " + c10::toString(type));
}

template <class Type>
constexpr at::ScalarType payload_type() {
  if (std::is_same_v<Type, float>) return at::kFloat;
  return std::is_same_v<Type, std::uint16_t> ? at::kHalf : at::kFloat8_e4m3fn;
}

// The payload has n elements; messages call it `name`.
template <class Type>
Type* elements_of(const char* name, const ScaledAdamwState::Array& array, std::int64_t n) {
  check_payload(name, array.payload, payload_type<Type>(), at::kCPU, n);
  return static_cast<Type*>(array.payload.data_ptr());
}

template <class Gradient, class Moments>
vector::ScaledAdamwArrays<Gradient, Moments> arrays_of(const ScaledAdamwState& state) {
  const std::int64_t n = state.weights.payload.numel();
  return {.weights = elements_of<std::uint16_t>("weights", state.weights, n),
          .m = elements_of<typename Moments::First>("m", state.m, n),
          .v = elements_of<typename Moments::Second>("v", state.v, n),
          .gradients = elements_of<Gradient>("gradients", state.gradients, n)};
}

// Calls body(arrays, loops) for the gradients' type.
template <class Moments, class Body>
void with_gradients_of(const ScaledAdamwState& state, const vector::ScaledAdamwKernelsOf<Moments>& loops, Body body) {
  if (state.gradients.payload.scalar_type() == at::kFloat) return body(arrays_of<float, Moments>(state), loops.fp32);
  body(arrays_of<std::uint8_t, Moments>(state), loops.e4m3);
}

// And for the moments'.
template <class Body>
void with_arrays_of(const ScaledAdamwState& state, Body body) {
  if (state.m.payload.scalar_type() == at::kFloat) return with_gradients_of(state, adamw_loops().fp32_moments, body);
  with_gradients_of(state, adamw_loops().small_moments, body);
}

float one_over(const at::Tensor& scale) { return 1 / *scale.const_data_ptr<float>(); }

vector::ScaledAdamwConstants constants_of(const ScaledAdamwState& state, const AdamwStep& step) {
  return {.step = constants_of(step),
          .weights = one_over(state.weights.scale),
          .m = one_over(state.m.scale),
          .v = one_over(state.v.scale),
          .gradients = one_over(state.gradients.scale)};
}

void vector_step_largest(const ScaledAdamwTensor& tensor, const AdamwStep& step) {
  const ScaledAdamwState& state = tensor.state;
  const vector::ScaledAdamwConstants constants = constants_of(state, step);
  const std::int64_t n = state.weights.payload.numel(), pieces = (n + weights_per_thread - 1) / weights_per_thread;
  // Pieces of a fixed size, each with a place for its result, instead of atomic operations on three numbers.
  std::vector<vector::OfAdamwStates<std::uint32_t>> found(static_cast<std::size_t>(pieces));
  with_arrays_of(state, [&](const auto& arrays, const auto& loops) {
    at::parallel_for(0, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        found[static_cast<std::size_t>(i)] =
            loops.largest(arrays, constants, i * weights_per_thread, std::min((i + 1) * weights_per_thread, n));
    });
  });
  // As bits, which order as magnitudes do, and NaN is the largest.
  auto* const numbers = tensor.numbers.mutable_data_ptr<float>();
  const auto note = [](float& number, std::uint32_t bits) {
    number = std::bit_cast<float>(std::max(std::bit_cast<std::uint32_t>(number), bits));
  };
  for (const auto& piece : found) {
    note(numbers[0], piece.weights);
    note(numbers[1], piece.m);
    note(numbers[2], piece.v);
  }
}

void vector_step(const ScaledAdamwTensor& tensor, const AdamwStep& step) {
  const ScaledAdamwState& state = tensor.state;
  const vector::ScaledAdamwConstants constants = constants_of(state, step);
  const auto* numbers = tensor.numbers.const_data_ptr<float>();
  const vector::OfAdamwStates<float> scales{numbers[0], numbers[1], numbers[2]};
  with_arrays_of(state, [&](const auto& arrays, const auto& loops) {
    at::parallel_for(0, state.weights.payload.numel(), weights_per_thread, [&](std::int64_t begin, std::int64_t end) {
      if (tensor.rounding) return loops.random_step(arrays, constants, scales, *tensor.rounding, begin, end);
      loops.step(arrays, constants, scales, begin, end);
    });
  });
}

// On GPUs, all of which bring the table of kernels.

ScaledAdamwOperands operands_of(const ScaledAdamwTensor& tensor, const AdamwConstants& constants) {
  const ScaledAdamwState& state = tensor.state;
  const std::int64_t n = state.weights.payload.numel();
  const bool has_small_moments = state.m.payload.scalar_type() != at::kFloat;
  const bool has_wide_gradients = state.gradients.payload.scalar_type() == at::kFloat;
  const auto array = [&](const char* name, const ScaledAdamwState::Array& of, at::ScalarType type) {
    check_payload(name, of.payload, type, state.weights.payload.device(), n);
    return ScaledAdamwOperands::Array{of.payload.data_ptr(), of.scale.const_data_ptr<float>()};
  };
  return {.weights = array("weights", state.weights, at::kHalf),
          .m = array("m", state.m, has_small_moments ? at::kFloat8_e4m3fn : at::kFloat),
          .v = array("v", state.v, has_small_moments ? at::kHalf : at::kFloat),
          .gradients = array("gradients", state.gradients, has_wide_gradients ? at::kFloat : at::kFloat8_e4m3fn),
          .has_small_moments = has_small_moments,
          .has_wide_gradients = has_wide_gradients,
          .n = n,
          .decay = tensor.decays ? constants.decay : 1,
          .numbers = tensor.numbers.mutable_data_ptr<float>(),
          .rounding = tensor.rounding ? &*tensor.rounding : nullptr};
}

using DeviceStep = void (*)(const ScaledAdamwArguments&, void*);

void device_step(DeviceStep kernels, std::span<const ScaledAdamwTensor> tensors, const AdamwStep& step) {
  const at::Tensor& weights = tensors.front().state.weights.payload;
  const c10::DeviceGuard guard(weights.device());
  const AdamwConstants constants = constants_of(step);
  std::vector<ScaledAdamwOperands> operands;
  for (const ScaledAdamwTensor& tensor : tensors) operands.push_back(operands_of(tensor, constants));
  kernels({operands.data(), static_cast<std::int64_t>(operands.size()), constants}, stream_of(weights));
}

bool are_on_host(std::span<const ScaledAdamwTensor> tensors) { return tensors.front().state.weights.payload.is_cpu(); }

AdamwStep step_of(const ScaledAdamwTensor& tensor, AdamwStep step) {
  if (!tensor.decays) step.weight_decay = 0;
  return step;
}

}  // namespace

void scaled_adamw_largest(std::span<const ScaledAdamwTensor> tensors, const AdamwStep& step) {
  if (tensors.empty()) return;
  if (!are_on_host(tensors)) return device_step(kernel_table()->scaled_adamw->largest, tensors, step);
  for (const ScaledAdamwTensor& tensor : tensors) vector_step_largest(tensor, step_of(tensor, step));
}

void scaled_adamw_(std::span<const ScaledAdamwTensor> tensors, const AdamwStep& step) {
  if (tensors.empty()) return;
  if (!are_on_host(tensors)) return device_step(kernel_table()->scaled_adamw->step, tensors, step);
  for (const ScaledAdamwTensor& tensor : tensors) vector_step(tensor, step_of(tensor, step));
}

}  // namespace llmtrain::kernels

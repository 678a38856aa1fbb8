// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/fp8/adamw_parts.h"
#include "kernels/fp8/fp8.h"
#include "kernels/vector/adamw.h"

namespace llmtrain::kernels {
namespace {

void check_payload(const char* name, const at::Tensor& x, at::ScalarType type, std::int64_t n) {
  check_size(name, x, n);
  if (!is_flat(x, type))
    throw Error(ExitCode::internal_error,
                std::string("adamw: scaled ") + name + " must be contiguous on the CPU, in " + c10::toString(type));
}

template <class Type>
constexpr at::ScalarType payload_type() {
  if (std::is_same_v<Type, float>) return at::kFloat;
  return std::is_same_v<Type, std::uint16_t> ? at::kHalf : at::kFloat8_e4m3fn;
}

// The payload has n elements; messages call it `name`.
template <class Type>
Type* elements_of(const char* name, const ScaledAdamwState::Array& array, std::int64_t n) {
  check_payload(name, array.payload, payload_type<Type>(), n);
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

at::Tensor vector_step_largest(const ScaledAdamwState& state, const AdamwStep& step) {
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
  std::uint32_t weights = 0, m = 0, v = 0;
  for (const auto& piece : found) {
    weights = std::max(weights, piece.weights);
    m = std::max(m, piece.m);
    v = std::max(v, piece.v);
  }
  return at::tensor({std::bit_cast<float>(weights), std::bit_cast<float>(m), std::bit_cast<float>(v)}, at::kFloat);
}

void vector_step(const ScaledAdamwState& state, const AdamwStep& step, const at::Tensor& next) {
  const vector::ScaledAdamwConstants constants = constants_of(state, step);
  const auto* numbers = next.const_data_ptr<float>();
  const vector::OfAdamwStates<float> scales{numbers[0], numbers[1], numbers[2]};
  with_arrays_of(state, [&](const auto& arrays, const auto& loops) {
    at::parallel_for(0, state.weights.payload.numel(), weights_per_thread,
                     [&](std::int64_t begin, std::int64_t end) { loops.step(arrays, constants, scales, begin, end); });
  });
}

// On GPUs in LibTorch operators.

// Bounds the fp32 copies of a piece, and is enough to hide the launches.
constexpr std::int64_t device_piece = 1 << 22;

// Calls work(state) for one piece after the other.
template <class Work>
void in_pieces(const ScaledAdamwState& state, Work work) {
  const std::int64_t n = state.weights.payload.numel();
  for (std::int64_t begin = 0; begin < n; begin += device_piece) {
    const auto part = [&](const ScaledAdamwState::Array& array) {
      return ScaledAdamwState::Array{array.payload.slice(0, begin, std::min(begin + device_piece, n)), array.scale};
    };
    work(ScaledAdamwState{part(state.weights), part(state.m), part(state.v), part(state.gradients)});
  }
}

// A copy in fp32.
at::Tensor unscaled(const ScaledAdamwState::Array& array) {
  return array.payload.to(at::kFloat, false, true).div_(array.scale);
}

// The values after the step, in fp32.
AdamwState stepped(const ScaledAdamwState& state, const AdamwStep& step) {
  AdamwState after{unscaled(state.weights), unscaled(state.m), unscaled(state.v)};
  adamw_(after, unscaled(state.gradients), step, std::nullopt);
  return after;
}

at::Tensor device_step_largest(const ScaledAdamwState& state, const AdamwStep& step) {
  at::Tensor largest = at::zeros({3}, state.weights.payload.options().dtype(at::kFloat));
  in_pieces(state, [&](const ScaledAdamwState& piece) {
    const AdamwState after = stepped(piece, step);
    std::int64_t place = 0;
    for (const at::Tensor& values : {after.weights, after.m, after.v}) {
      at::Tensor most = largest.narrow(0, place++, 1);
      // Keeps a NaN.
      at::maximum_out(most, most, largest_magnitude(values));
    }
  });
  return largest;
}

void device_step(const ScaledAdamwState& state, const AdamwStep& step, const at::Tensor& next) {
  const auto scale = [&](std::int64_t place) { return next.narrow(0, place, 1); };
  in_pieces(state, [&](const ScaledAdamwState& piece) {
    const AdamwState after = stepped(piece, step);
    piece.weights.payload.copy_(after.weights.mul_(scale(0)));
    if (piece.m.payload.scalar_type() == at::kFloat) {
      piece.m.payload.copy_(after.m);
      piece.v.payload.copy_(after.v);
      return;
    }
    cast_to_fp8_into(after.m, scale(1), piece.m.payload);
    const at::Tensor v = after.v.mul_(scale(2));
    // The least number that fp16 has instead of 0.
    piece.v.payload.copy_(at::where(v.gt(0), v.clamp_min(0x1p-24), v));
  });
}

bool is_on_host(const ScaledAdamwState& state) { return state.weights.payload.is_cpu(); }

}  // namespace

at::Tensor scaled_adamw_largest(const ScaledAdamwState& state, const AdamwStep& step) {
  return (is_on_host(state) ? vector_step_largest : device_step_largest)(state, step);
}

void scaled_adamw_(const ScaledAdamwState& state, const AdamwStep& step, const at::Tensor& next) {
  (is_on_host(state) ? vector_step : device_step)(state, step, next);
}

}  // namespace llmtrain::kernels

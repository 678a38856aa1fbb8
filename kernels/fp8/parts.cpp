// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8/parts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"
#include "kernels/fp8/fp8.h"
#include "kernels/reduction.h"

namespace llmtrain::kernels {
namespace {

at::Tensor of_part(const at::Tensor& flat, const FlatPart& part) { return flat.slice(0, part.begin, part.end); }

at::Tensor number_of(const at::Tensor& numbers, const FlatPart& part) { return numbers.narrow(0, part.number, 1); }

bool is_fp8(const at::Tensor& payload) { return payload.scalar_type() == at::kFloat8_e4m3fn; }

// Calls work(piece) for pieces of parts, which bound the copies in fp32 that a processor works on to 4 MB.
template <class Work>
void over_pieces(std::span<const FlatPart> parts, Work work) {
  constexpr std::int64_t most = 1 << 20;
  for (const FlatPart& part : parts)
    for (std::int64_t begin = part.begin; begin < part.end; begin += most)
      work(FlatPart{begin, std::min(begin + most, part.end), part.number});
}

// On GPUs, all of which bring the table of kernels.

const Fp8Kernels& device_kernels() { return *kernel_table()->fp8; }

FlatParts operand_of(std::span<const FlatPart> parts) {
  return {parts.data(), static_cast<std::int64_t>(parts.size())};
}

std::int64_t portions_of(std::span<const FlatPart> parts) {
  std::int64_t portions = 0;
  for (const FlatPart& part : parts) portions += fp8_portions(part);
  return portions;
}

at::Tensor device_counts(const at::Tensor& payload, std::span<const FlatPart> parts, std::int64_t numbers) {
  const at::Tensor counts = at::zeros({numbers}, payload.options().dtype(at::kLong));
  device_kernels().count_saturated_parts(
      {.of = operand_of(parts), .payload = payload.const_data_ptr(), .counts = counts.mutable_data_ptr<std::int64_t>()},
      stream_of(payload));
  return counts.to(at::kFloat);
}

at::Tensor device_squares(const at::Tensor& payload, const at::Tensor& scales, std::span<const FlatPart> parts) {
  const at::TensorOptions wide = payload.options().dtype(at::kDouble);
  const at::Tensor partials = at::empty({portions_of(parts)}, wide);
  at::Tensor sum = at::empty({}, wide);
  device_kernels().squares_of_parts({.of = operand_of(parts),
                                     .payload = payload.const_data_ptr(),
                                     .scales = scales.const_data_ptr<float>(),
                                     .partials = partials.mutable_data_ptr<double>(),
                                     .sum = sum.mutable_data_ptr<double>()},
                                    stream_of(payload));
  return sum;
}

}  // namespace

void largest_of_parts(const at::Tensor& x, std::span<const FlatPart> parts, const at::Tensor& largest) {
  if (!x.is_cpu()) {
    const c10::DeviceGuard guard(x.device());
    return device_kernels().largest_of_parts({.of = operand_of(parts),
                                              .element = *element_of(x),
                                              .x = x.const_data_ptr(),
                                              .largest = largest.mutable_data_ptr<float>()},
                                             stream_of(x));
  }
  for (const FlatPart& part : parts) {
    at::Tensor most = number_of(largest, part);
    // Keeps a NaN.
    at::maximum_out(most, most, largest_magnitude(of_part(x, part)));
  }
}

void cast_parts_to_fp8(const at::Tensor& x, const at::Tensor& x_scales, const at::Tensor& scales,
                       std::span<const FlatPart> parts, const at::Tensor& payload) {
  if (!x.is_cpu()) {
    const c10::DeviceGuard guard(x.device());
    return device_kernels().cast_parts({.of = operand_of(parts),
                                        .element = *element_of(x),
                                        .x = x.const_data_ptr(),
                                        .x_scales = x_scales.defined() ? x_scales.const_data_ptr<float>() : nullptr,
                                        .scales = scales.const_data_ptr<float>(),
                                        .payload = payload.mutable_data_ptr()},
                                       stream_of(x));
  }
  over_pieces(parts, [&](const FlatPart& piece) {
    const at::Tensor own = of_part(x, piece);
    cast_to_fp8_into(x_scales.defined() ? own.to(at::kFloat).div(number_of(x_scales, piece)) : own,
                     number_of(scales, piece), of_part(payload, piece));
  });
}

void widen_parts(const at::Tensor& payload, const at::Tensor& scales, std::span<const FlatPart> parts,
                 const at::Tensor& x) {
  if (!x.is_cpu()) {
    const c10::DeviceGuard guard(x.device());
    return device_kernels().widen_parts({.of = operand_of(parts),
                                         .is_fp8 = is_fp8(payload),
                                         .payload = payload.const_data_ptr(),
                                         .scales = scales.const_data_ptr<float>(),
                                         .element = *element_of(x),
                                         .x = x.mutable_data_ptr()},
                                        stream_of(x));
  }
  for (const FlatPart& part : parts) {
    const at::Tensor scale = number_of(scales, part);
    if (is_fp8(payload)) {
      widen_fp8_into(of_part(payload, part), scale, of_part(x, part));
    } else {
      // A power of two: its reciprocal and the products with it are exact.
      of_part(x, part).copy_(of_part(payload, part)).mul_(1 / *scale.const_data_ptr<float>());
    }
  }
}

at::Tensor saturated_counts(const at::Tensor& payload, std::span<const FlatPart> parts, std::int64_t numbers) {
  const c10::DeviceGuard guard(payload.device());
  if (!payload.is_cpu()) return device_counts(payload, parts, numbers);
  at::Tensor counts = at::zeros({numbers}, at::kLong);
  for (const FlatPart& part : parts)
    counts.mutable_data_ptr<std::int64_t>()[part.number] += count_saturated(of_part(payload, part));
  return counts.to(at::kFloat);
}

at::Tensor squares_of_parts(const at::Tensor& payload, const at::Tensor& scales, std::span<const FlatPart> parts) {
  const c10::DeviceGuard guard(payload.device());
  if (!payload.is_cpu()) return device_squares(payload, scales, parts);
  double sum = 0;
  over_pieces(parts, [&](const FlatPart& piece) {
    sum += sum_of_squares(widen_fp8(of_part(payload, piece), number_of(scales, piece), at::kFloat));
  });
  return at::scalar_tensor(sum, at::kDouble);
}

}  // namespace llmtrain::kernels

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>

#include "kernels/fp8/fp8.h"
#include "kernels/host_copy.h"

// The scales with which TensorScales stores weights and an optimizer's states, from their largest magnitudes.
namespace llmtrain {

// Bounds the fp32 copies of weights and gradients that an update works on: 4 MB each on a processor, and on a GPU 16,
// which hide the launches. By where what is worked on is.
inline std::int64_t piece_elements(const at::Tensor& there) { return std::int64_t{1} << (there.is_cpu() ? 20 : 22); }

// Places the largest weight at 2¹¹ to 2¹²: one step may multiply it by 16 before it leaves fp16, and a weight 2²⁵ times
// smaller is still a normal number. At most 2¹⁴, with which a step may take weights near zero to 4 and those from 2⁻²⁸
// on are normal.
inline at::Tensor weight_scale(const at::Tensor& largest) { return kernels::scale_below(12, largest, 14); }

// For what is stored as `type`: weights in fp16 (`what` 0) or an optimizer's state, which in fp16 takes the range up to
// 2¹⁵, because second moments span twice as many powers of two as gradients.
inline at::Tensor scale_for(std::size_t what, at::ScalarType type, const at::Tensor& largest) {
  if (type == at::kFloat8_e4m3fn) return kernels::fp8_scale(largest, kernels::Fp8Format::e4m3);
  return what == 0 ? weight_scale(largest) : kernels::scale_below(15, largest, 100);
}

// A copy of numbers where the device is, unless they are there.
inline at::Tensor numbers_at(const at::Tensor& numbers, const at::Device& device) {
  return device.is_cpu() ? kernels::to_host(numbers) : kernels::to_device(numbers, device);
}

}  // namespace llmtrain

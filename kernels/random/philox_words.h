// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace llmtrain::kernels {

// philox() (kernels/random/philox.h) in tensor operators, for devices without a loop of their own: word w of each of
// the counters first … first + count − 1 is element w. int64 [count] each, since LibTorch lacks arithmetic on unsigned
// 32-bit words.
std::array<at::Tensor, 4> philox_words(std::uint64_t key, std::int64_t first, std::int64_t count,
                                       const at::Device& device);

}  // namespace llmtrain::kernels

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace llmtrain::kernels {

// philox() (kernels/random/philox.h) in tensor operators, for devices without a loop of their own: the four words of
// each of the counters first … first + count − 1, one after another. int64 [4 · count].
at::Tensor philox_words(std::uint64_t key, std::int64_t first, std::int64_t count, const at::Device& device);

}  // namespace llmtrain::kernels

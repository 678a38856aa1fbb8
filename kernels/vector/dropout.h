// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

struct DropoutMask {
  std::uint64_t key;
  std::uint32_t threshold;  // words below it drop their element
  float scale;              // of the others
};

// Masks the n elements at x, of which the first has index `first_element` in the unsharded tensor.
struct DropoutKernels {
  void (*fp32)(float* x, std::int64_t n, std::uint64_t first_element, const DropoutMask& mask);
  void (*bf16)(std::uint16_t* x, std::int64_t n, std::uint64_t first_element, const DropoutMask& mask);
};

template <int level>
DropoutKernels dropout_kernels_for();

}  // namespace llmtrain::kernels::vector

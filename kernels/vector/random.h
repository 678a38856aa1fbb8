// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

struct NormalSequence {
  std::uint64_t key;
  double standard_deviation;
};

// Writes n numbers of the sequence to x, from its element `first_element` on. The bits are the same at every level.
struct RandomKernels {
  void (*fp32)(float* x, std::int64_t n, std::uint64_t first_element, const NormalSequence& sequence);
  void (*fp64)(double* x, std::int64_t n, std::uint64_t first_element, const NormalSequence& sequence);
};

template <int level>
RandomKernels random_kernels_for();

}  // namespace llmtrain::kernels::vector

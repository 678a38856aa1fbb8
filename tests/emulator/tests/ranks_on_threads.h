// SPDX-License-Identifier: Apache-2.0
// Programs of two ranks, one thread and one emulated device each, that talk through NCCL's names.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <functional>
#include <string>

#include "tests/emulator/tests/floats.h"

namespace emulated::test {

struct Rank {
  int number = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;

  Floats floats(std::size_t count, float value) const;  // on the rank's device, set
  float first_of(const Floats& x) const;
};

// Waits for each rank's stream at the end. Throws what the first rank threw, or what NCCL or CUDA returned.
void on_two_ranks(const std::function<void(const Rank&)>& run);

void check(ncclResult_t result);

}  // namespace emulated::test

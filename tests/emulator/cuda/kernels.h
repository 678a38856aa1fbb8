// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/kernel_table.h"

namespace emulated {

// The project's kernels on the emulated device: each is work of a stream, which runs it on the processor
// (tests/cuda_on_host). The memory that it states is checked for races and overruns, and counted as bytes.
extern const llmtrain::kernels::KernelTable table_of_kernels;

}  // namespace emulated

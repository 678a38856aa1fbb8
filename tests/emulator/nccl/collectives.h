// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/emulator/device/stream.h"
#include "tests/emulator/nccl/communicator.h"

namespace emulated {

// Puts the collective on the stream. On the stream's thread the ranks first compare what they have called, where NCCL
// itself would hang or mix data up. `input_parts` and `output_parts`: how often `call.count` elements these hold.
ncclResult_t start_collective(ncclComm* comm, Call call, const void* input, void* output, int input_parts,
                              int output_parts, Stream* stream);

// What NCCL demands of memory and stream: both are the communicator's device's. Throws Fault.
void check_place(const ncclComm& comm, const void* memory, std::size_t bytes, Stream* stream);

}  // namespace emulated

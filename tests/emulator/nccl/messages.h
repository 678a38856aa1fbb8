// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/emulator/device/stream.h"
#include "tests/emulator/nccl/communicator.h"

namespace emulated {

// Messages between ncclGroupStart() and ncclGroupEnd() are under way at once, per thread; outside, each by itself.
void begin_group();
ncclResult_t end_group();
ncclResult_t add_message(ncclComm* comm, bool is_send, const void* memory, std::size_t bytes, int peer, Stream* stream);

}  // namespace emulated

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "parallel/comm/staged/staged_world.h"

namespace llmtrain {

// A StagingDevice for GPUs, on LibTorch's device-independent streams, events and pinned memory. Copies run on two
// separate streams, one per direction; computation is the calling thread's current stream. LibTorch's host allocator
// caches pinned memory, whose allocation is slow, for later operations.
std::unique_ptr<StagingDevice> make_torch_staging(const c10::Device& device);

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "parallel/comm/staged/staging_device.h"

namespace llmtrain {

// A StagingDevice for GPUs, on LibTorch's device-independent streams, events and pinned memory. Copies run on two
// separate streams, one per direction; computation is the calling thread's current stream.
std::unique_ptr<StagingDevice> make_torch_staging_device(const c10::Device& device);

}  // namespace llmtrain

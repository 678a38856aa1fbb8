// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

#include "parallel/comm/communicator.h"

namespace llmtrain::test {

// Ranks on the emulated GPUs over NCCL, as connect_devices() does it. Blocks until all have called it.
std::shared_ptr<Communicator> connect_over_nccl(std::shared_ptr<Communicator> host, const c10::Device& device);

// Runs `work` on threads as ranks that are connected so, each with an emulated GPU of its own, where its tensors are.
void on_gpus(int ranks, const std::function<void(Communicator&, const c10::Device&)>& work);

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

#include "parallel/comm/communicator.h"

namespace llmtrain::test {

// Connects a rank's device over a backend of the host: TorchStagingDevice, or NCCL above it.
using ConnectDevice = std::function<std::shared_ptr<Communicator>(std::shared_ptr<Communicator>, const c10::Device&)>;

// A rank on the emulated GPU whose number is its rank, for suites whose values are in the host's memory: what they
// declare as memory of a device, or with `is_device` other requests as well, is copied there, communicated by what
// `connect` makes, and copied back by wait(). Groups are connected for collectives and for messages in both directions,
// the world too. Call it on the rank's thread.
std::shared_ptr<Communicator> on_emulated_device(
    std::shared_ptr<Communicator> host, const ConnectDevice& connect,
    std::function<bool(const Request&)> is_device = [](const Request& request) {
      return request.memory == Memory::device;
    });

// With staging alone, as connect_devices() does it for ranks on GPUs.
std::shared_ptr<Communicator> staged_on_emulated_device(std::shared_ptr<Communicator> host, const c10::Device& device);

}  // namespace llmtrain::test

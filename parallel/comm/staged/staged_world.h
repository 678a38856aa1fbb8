// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/comm/communicator.h"
#include "parallel/comm/staged/staging_device.h"

namespace llmtrain {

// A rank whose operations may use the memory of its device: their data pass through host memory over `host`, which
// connects the same ranks. Operations on host memory are passed on unchanged.
//
// Only wait() blocks, until the copy of the results to the device has been enqueued. A separate thread executes a
// rank's operations in the order in which they were started: it waits for the preceding computation, runs the operation
// on the host and copies the results back. The watchdog's time and the log's seconds start when the operation reaches
// the host and cover only the host's part. Sums are those of the host, in its fixed order.
std::unique_ptr<Communicator> stage_through_host(std::shared_ptr<Communicator> host,
                                                 std::unique_ptr<StagingDevice> device);

}  // namespace llmtrain

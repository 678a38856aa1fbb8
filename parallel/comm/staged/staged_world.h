// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/comm/communicator.h"
#include "parallel/comm/staged/staging_device.h"

namespace llmtrain {

// A rank whose operations may have the memory of its device: they pass through the host's memory, over `host`, which
// connects the same ranks. Operations on the host's memory go to it as they are.
//
// Nothing blocks but wait(), and that until the results are on their way back: an operation waits for the computation
// that it follows, goes over the host and returns on a thread of its own, one rank's operations in the order of their
// start. The watchdog's time counts from when the operation reaches the host, as do the seconds of the log, which are
// of the host's part alone. Sums are the host's: in their exact order.
std::unique_ptr<Communicator> stage_through_host(std::shared_ptr<Communicator> host,
                                                 std::unique_ptr<StagingDevice> device);

}  // namespace llmtrain

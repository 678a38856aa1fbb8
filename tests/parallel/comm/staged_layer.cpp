// SPDX-License-Identifier: Apache-2.0
// The suite's values are on the emulated GPU and are staged through the host.
#include "tests/parallel/comm/device_layer.h"
#include "tests/parallel/comm/numbers.h"
#include "tests/parallel/comm/rank_harness.h"

namespace llmtrain::test {

std::shared_ptr<Communicator> with_layer(std::shared_ptr<Communicator> backend) {
  return on_emulated_device(std::move(backend), staged_on_emulated_device);
}

std::vector<int> thread_counts() { return {1, 3}; }

Memory values_memory() { return Memory::device; }

}  // namespace llmtrain::test

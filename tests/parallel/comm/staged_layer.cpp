// SPDX-License-Identifier: Apache-2.0
// The suite's memory counts as device memory and is staged through the host.
#include "parallel/comm/staged/staged_world.h"
#include "tests/parallel/comm/fake_device.h"
#include "tests/parallel/comm/numbers.h"
#include "tests/parallel/comm/rank_harness.h"

namespace llmtrain::test {

std::shared_ptr<Communicator> with_layer(std::shared_ptr<Communicator> backend) {
  return stage_through_host(std::move(backend), std::make_unique<FakeDevice>(nullptr));
}

std::vector<int> thread_counts() { return {1, 3}; }

Memory values_memory() { return Memory::device; }

}  // namespace llmtrain::test

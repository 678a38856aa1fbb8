// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/comm/numbers.h"
#include "tests/parallel/comm/rank_harness.h"

namespace llmtrain::test {

std::shared_ptr<Communicator> with_layer(std::shared_ptr<Communicator> backend) { return backend; }

std::vector<int> thread_counts() { return {1, 2, 3, 4, 8}; }

Memory values_memory() { return Memory::host; }

}  // namespace llmtrain::test

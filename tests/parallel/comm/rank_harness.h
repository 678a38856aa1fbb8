// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"

namespace llmtrain::test {

// How many ranks the suite runs on here: several numbers for ranks that are threads, one under mpirun.
std::vector<int> rank_counts();

// Runs `work` as each of `ranks` ranks. Throws when it throws on any: Catch's own assertions belong to one thread.
void on_ranks(int ranks, const std::function<void(Communicator&)>& work);

// Throws std::runtime_error with the message where the condition is false.
void expect(bool condition, const std::string& message);

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"

namespace llmtrain::test {

// The numbers of ranks that the suite runs on: several if ranks are threads, one under mpirun.
std::vector<int> rank_counts();

// What the suite tests: the backend that connects the ranks, or a layer over it.
std::shared_ptr<Communicator> with_layer(std::shared_ptr<Communicator> backend);

// The number of ranks if they are threads: a layer with its own threads uses fewer.
std::vector<int> thread_counts();

// Runs `work` on each of `ranks` ranks. Throws if it throws on any, because Catch's assertions work in one thread only.
void on_ranks(int ranks, const std::function<void(Communicator&)>& work);

// Throws std::runtime_error with the message if the condition is false.
void expect(bool condition, const std::string& message);

}  // namespace llmtrain::test

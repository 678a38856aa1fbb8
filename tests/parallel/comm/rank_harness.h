// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"

namespace llmtrain::test {

// How many ranks the suite runs on here: several numbers for ranks that are threads, one under mpirun.
std::vector<int> rank_counts();

// What the suite tests over a backend that connects the ranks: that one itself, or a layer over it.
std::shared_ptr<Communicator> with_layer(std::shared_ptr<Communicator> backend);

// How many threads are ranks, where they are: a layer with threads of its own takes fewer.
std::vector<int> thread_counts();

// Runs `work` as each of `ranks` ranks. Throws when it throws on any: Catch's own assertions belong to one thread.
void on_ranks(int ranks, const std::function<void(Communicator&)>& work);

// Throws std::runtime_error with the message where the condition is false.
void expect(bool condition, const std::string& message);

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tuple>
#include <vector>

#include "parallel/layout/layout.h"

namespace llmtrain {

// What one GPU is connected to others for: NCCL has a communicator, with its memory, for each.
struct Connection {
  // Collectives whose results computation waits for soon, those that go on beside it, messages of a pipeline from the
  // first rank to the second, and sums over its ranks that hold copies of a parameter.
  enum class Use { computation, background, activations, gradients, copies };

  Use use = Use::computation;
  std::vector<int> ranks;  // of the world, in their order within the connection

  bool operator==(const Connection&) const = default;
  bool operator<(const Connection& other) const { return std::tie(use, ranks) < std::tie(other.use, other.ranks); }
};

// All connections of this rank's GPU in a run, ascending, each once: groups of the same ranks in the same order and for
// the same use share one. A group of one rank has none.
std::vector<Connection> connections_of(const Partition& partition, int rank);

}  // namespace llmtrain

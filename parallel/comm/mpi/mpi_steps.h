// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "parallel/comm/mpi/mpi_messages.h"
#include "parallel/comm/request.h"

namespace llmtrain {

// How one operation goes, message by message. One thread at a time calls it.
class MpiSteps {
 public:
  virtual ~MpiSteps() = default;
  // Goes on as far as it can without waiting; whether the operation is done.
  virtual bool advance() = 0;
  // Positions in the group that it waits for.
  virtual std::vector<int> open_peers() = 0;
};

// The MPI communicator of a group, and a number that all its members give this operation alone for the time it takes.
struct MpiLane {
  MPI_Comm communicator = MPI_COMM_NULL;
  int number = 0;

  static constexpr int phases = 2;
  MpiRoute route(int peer, int phase = 0) const { return {communicator, peer, 1 + number * phases + phase}; }
  // Messages are told apart by their order alone.
  MpiRoute message_route(int peer) const { return {communicator, peer, 0}; }
};

// Starts the operation: its first messages leave.
std::unique_ptr<MpiSteps> start_steps(const Request& request, const MpiLane& lane);

// All members of a group that is being made say so to each other; `ranks` are theirs in `communicator`.
std::unique_ptr<MpiSteps> start_meeting(const std::vector<int>& ranks, int position, MPI_Comm communicator);

// The parts of start_steps() that have files of their own.
std::unique_ptr<MpiSteps> start_ordered_reduction(const Request& request, const MpiLane& lane);

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "parallel/comm/mpi/mpi_messages.h"
#include "parallel/comm/request.h"

namespace llmtrain {

// The execution of one operation, message by message. Calls must be serialised.
class MpiSteps {
 public:
  virtual ~MpiSteps() = default;
  // Proceeds as far as possible without blocking; returns whether the operation is complete.
  virtual bool advance() = 0;
  // Positions in the group that the operation waits for.
  virtual std::vector<int> open_peers() = 0;
};

// The MPI communicator of a group, and a number that identifies this operation on all members while it is in flight.
struct MpiLane {
  MPI_Comm communicator = MPI_COMM_NULL;
  int number = 0;

  static constexpr int phases = 2;
  MpiRoute route(int peer, int phase = 0) const { return {communicator, peer, 1 + number * phases + phase}; }
  // Tag 0: messages are distinguished only by their order.
  MpiRoute message_route(int peer) const { return {communicator, peer, 0}; }
};

// Starts the operation: posts its first messages.
std::unique_ptr<MpiSteps> start_steps(const Request& request, const MpiLane& lane);

// A barrier of the members of a group that is being created; `ranks` are their ranks in `communicator`.
std::unique_ptr<MpiSteps> start_meeting(const std::vector<int>& ranks, int position, MPI_Comm communicator);

// Part of start_steps(), in a file of its own.
std::unique_ptr<MpiSteps> start_ordered_reduction(const Request& request, const MpiLane& lane);

}  // namespace llmtrain

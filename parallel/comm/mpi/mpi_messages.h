// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

namespace llmtrain {

// Throws Error(rank_lost) with MPI's message if `status` is an error; `what` names the failed action: "MPI cannot
// <what>".
void check_mpi(int status, const char* what);

// A communicator of all ranks whose messages cannot match those of others, and whose errors check_mpi() gets to see.
MPI_Comm copy_of_world(const char* what);

// The source or destination of a message: a rank of an MPI communicator, and the tag that separates it from others.
struct MpiRoute {
  MPI_Comm communicator = MPI_COMM_NULL;
  int peer = 0;
  int tag = 0;
};

// Messages in flight that complete together. Messages of one route arrive in the order of the calls. Large messages are
// sent in parts. Calls must be serialised; all throw Error if MPI fails.
class MpiMessages {
 public:
  MpiMessages() = default;
  MpiMessages(const MpiMessages&) = delete;  // each request has one owner
  MpiMessages& operator=(const MpiMessages&) = delete;

  void send(const void* data, std::int64_t bytes, const MpiRoute& route);
  void receive(void* data, std::int64_t bytes, const MpiRoute& route);

  // Whether all are complete; advances all messages of this process. Throws Error if a message had another size.
  bool are_done();

  // The peers of receives that are not complete; if all are, those of incomplete sends.
  std::vector<int> open_peers();

 private:
  struct Part {
    int peer = 0;
    std::int64_t receive_bytes = -1;  // -1: a send
  };

  void check_sizes();

  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
  std::vector<Part> parts_;
};

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

namespace llmtrain {

// Where a message goes to or comes from: a rank of an MPI communicator, and what keeps it apart from others.
struct MpiRoute {
  MPI_Comm communicator = MPI_COMM_NULL;
  int peer = 0;
  int tag = 0;
};

// Messages under way that are done together. Those of one route arrive in the order of the calls. Messages of any size
// travel in parts. One thread at a time; all of it throws Error where MPI fails.
class MpiMessages {
 public:
  MpiMessages() = default;
  ~MpiMessages() = default;
  MpiMessages(MpiMessages&&) = default;
  MpiMessages& operator=(MpiMessages&&) = default;
  MpiMessages(const MpiMessages&) = delete;  // each request has one owner
  MpiMessages& operator=(const MpiMessages&) = delete;

  void send(const void* data, std::int64_t bytes, const MpiRoute& route);
  void receive(void* data, std::int64_t bytes, const MpiRoute& route);

  // Whether all have arrived; moves all messages of this process on. Throws when one had another size.
  bool are_done();

  // The peers of messages that have not arrived; where all have, of those that have not left.
  std::vector<int> open_peers();

 private:
  struct Part {
    int peer = 0;
    std::int64_t receive_bytes = -1;  // -1: it is sent
  };

  void check_sizes();

  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
  std::vector<Part> parts_;
};

}  // namespace llmtrain

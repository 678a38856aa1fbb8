// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_messages.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"

namespace llmtrain {
namespace {

// Parts of this size keep each call into MPI short, and well below the 2³¹ elements that MPI can count.
constexpr std::int64_t part_bytes = std::int64_t{4} << 20;

// Calls `work(begin, count)` for each part, at least once: an empty message is a message too. Both sides cut at the
// same places, so that parts match in the order in which they are sent, which MPI keeps between two ranks on one
// communicator and tag.
template <class Work>
void for_parts(std::int64_t bytes, Work work) {
  std::int64_t begin = 0;
  do {
    const std::int64_t count = std::min(part_bytes, bytes - begin);
    work(begin, static_cast<int>(count));
    begin += count;
  } while (begin < bytes);
}

}  // namespace

void check_mpi(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  throw Error(ExitCode::rank_lost, std::string("MPI cannot ") + what + ": " + text +
                                       "; usual causes are ranks that start different operations, or a lost rank");
}

MPI_Comm copy_of_world(const char* what) {
  MPI_Comm communicator = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator), what);
  // MPI's default handler would kill the process before it can report which operation failed.
  check_mpi(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "set an error handler");
  return communicator;
}

void MpiMessages::send(const void* data, std::int64_t bytes, const MpiRoute& route) {
  for_parts(bytes, [&](std::int64_t begin, int count) {
    const void* from = static_cast<const char*>(data) + begin;
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(from, count, MPI_BYTE, route.peer, route.tag, route.communicator, &request), "send");
    requests_.push_back(request);
    parts_.push_back({route.peer, -1});
  });
}

void MpiMessages::receive(void* data, std::int64_t bytes, const MpiRoute& route) {
  for_parts(bytes, [&](std::int64_t begin, int count) {
    void* to = static_cast<char*>(data) + begin;
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(to, count, MPI_BYTE, route.peer, route.tag, route.communicator, &request), "receive");
    requests_.push_back(request);
    parts_.push_back({route.peer, count});
  });
}

bool MpiMessages::are_done() {
  if (requests_.empty()) return true;
  statuses_.resize(requests_.size());
  int done = 0;
  // All or none, unlike MPI_Testsome(): until the last one is complete no request is freed, so that open_peers() can
  // still look at each.
  check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses_.data()),
            "make progress");
  if (done == 0) return false;
  check_sizes();
  // Ready for the next phase: steps reuse the object.
  requests_.clear();
  parts_.clear();
  return true;
}

void MpiMessages::check_sizes() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].receive_bytes < 0) continue;
    int bytes = 0;
    // MPI itself reports only messages that are longer than the receive; shorter ones it accepts in silence.
    check_mpi(MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes), "get the size of a message");
    if (bytes == parts_[i].receive_bytes) continue;
    throw Error(ExitCode::internal_error, "position " + std::to_string(parts_[i].peer) + " sent " +
                                              std::to_string(bytes) + " bytes, but this rank expects " +
                                              std::to_string(parts_[i].receive_bytes) + "; they must agree");
  }
}

std::vector<int> MpiMessages::open_peers() {
  std::vector<int> receiving, sending;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    int done = 0;
    // Unlike MPI_Test() this leaves a completed request as it is, for are_done().
    MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE);
    if (done == 0) (parts_[i].receive_bytes >= 0 ? receiving : sending).push_back(parts_[i].peer);
  }
  // Incomplete receives point at the ranks that are behind; a send may be incomplete only because its receiver waits
  // for them too.
  std::vector<int>& open = receiving.empty() ? sending : receiving;
  std::sort(open.begin(), open.end());
  open.erase(std::unique(open.begin(), open.end()), open.end());
  return open;
}

}  // namespace llmtrain

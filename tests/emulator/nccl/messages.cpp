// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/nccl/messages.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/emulator/cuda/guarded.h"
#include "tests/emulator/nccl/collectives.h"

namespace emulated {
namespace {

// A send or receive that makes progress piece by piece.
class Transfer {
 public:
  Transfer(ncclComm* comm, bool is_send, int peer, char* memory, std::size_t bytes)
      : comm_(comm), is_send_(is_send), peer_(peer), memory_(memory), bytes_(bytes) {}

  ncclComm* comm() const { return comm_; }
  const char* name() const { return is_send_ ? "ncclSend" : "ncclRecv"; }
  Access access() const { return {memory_, bytes_, !is_send_}; }
  bool has_finished() const { return done_ == bytes_; }
  // NCCL keeps the order of messages between two ranks.
  bool comes_before(const Transfer& other) const {
    return comm_ == other.comm_ && peer_ == other.peer_ && is_send_ == other.is_send_;
  }
  void advance() {
    while (!has_finished() && (is_send_ ? send_piece() : receive_piece())) {
    }
  }

 private:
  bool send_piece() {
    Message& m = comm_->message(comm_->rank, peer_);
    if (m.bytes != 0) return false;
    const std::size_t n = std::min(piece_bytes, bytes_ - done_);
    m.whole = bytes_;
    std::memcpy(m.data, static_cast<char*>(reachable(memory_)) + done_, n);
    m.bytes = n;
    done_ += n;
    return true;
  }
  bool receive_piece() {
    Message& m = comm_->message(peer_, comm_->rank);
    const std::size_t n = m.bytes;
    if (n == 0) return false;
    if (m.whole != bytes_)
      comm_->fail("ncclRecv of " + std::to_string(bytes_) + " bytes meets ncclSend of " + std::to_string(m.whole));
    std::memcpy(static_cast<char*>(reachable(memory_)) + done_, m.data, n);
    m.bytes = 0;
    done_ += n;
    return true;
  }

  ncclComm* comm_;
  bool is_send_;
  int peer_;
  char* memory_;
  std::size_t bytes_, done_ = 0;
};

// Advances each as far as it goes. Returns whether all have finished.
bool advance_all(std::vector<Transfer>& transfers) {
  bool all = true;
  for (auto own = transfers.begin(); own != transfers.end(); ++own) {
    const bool is_blocked = std::any_of(transfers.begin(), own,
                                        [&](const Transfer& t) { return t.comes_before(*own) && !t.has_finished(); });
    if (!is_blocked) own->advance();
    all = all && own->has_finished();
  }
  return all;
}

thread_local int depth = 0;
thread_local std::vector<Transfer> group;
thread_local Stream* group_stream = nullptr;

ncclResult_t start_group() {
  if (group.empty()) return ncclSuccess;
  std::vector<Access> accesses;
  for (const Transfer& t : group) accesses.push_back(t.access());
  auto transfers = std::exchange(group, {});
  const char* const name = transfers.size() == 1 ? transfers[0].name() : "a group of NCCL's messages";
  const cudaError_t status = guarded([&] {
    enqueue(group_stream, {name, accesses, [transfers, name]() mutable {
                             ncclComm* const comm = transfers[0].comm();
                             comm->check_state();
                             unless_aborted([&] { comm->wait_until([&] { return advance_all(transfers); }, name); });
                           }});
  });
  return status == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace

void begin_group() { ++depth; }

ncclResult_t end_group() { return --depth > 0 ? ncclSuccess : start_group(); }

ncclResult_t add_message(ncclComm* comm, bool is_send, const void* memory, std::size_t bytes, int peer,
                         Stream* stream) {
  if (comm->usable() != ncclSuccess) return comm->usable();
  if (peer < 0 || peer >= comm->size) return ncclInvalidArgument;
  const cudaError_t status = guarded([&] {
    check_place(*comm, memory, bytes, stream);
    if (!group.empty() && group_stream != stream) throw Fault("a group of messages on several streams is not emulated");
    group.emplace_back(comm, is_send, peer, static_cast<char*>(const_cast<void*>(memory)), bytes);
    group_stream = stream;
  });
  if (status != cudaSuccess) return ncclInvalidUsage;
  count("messages", is_send ? "ncclSend" : "ncclRecv");
  return depth > 0 ? ncclSuccess : start_group();
}

}  // namespace emulated

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "parallel/comm/backend.h"
#include "parallel/comm/nccl/cuda_events.h"

namespace llmtrain {

// Throws Error(rank_lost) with NCCL's message if `status` is an error; `what` names the failed action: "NCCL cannot
// <what>".
void check_nccl(ncclResult_t status, const char* what);

// What is issued while it lives starts together when it is destroyed, or rather at end(): as one launch, where NCCL
// can.
class NcclTogether {
 public:
  NcclTogether() { check_nccl(ncclGroupStart(), "start a group of operations"); }
  ~NcclTogether() {
    if (!has_ended_) ncclGroupEnd();
  }
  NcclTogether(const NcclTogether&) = delete;  // NCCL counts them
  NcclTogether& operator=(const NcclTogether&) = delete;
  void end() {
    has_ended_ = true;
    check_nccl(ncclGroupEnd(), "start operations together");
  }

 private:
  bool has_ended_ = false;
};

// The ranks of an NCCL communicator: how many, and which of them this one is.
struct NcclPlace {
  int size = 0;
  int position = 0;
};

// What a link is for: collectives of all its ranks, or messages from its first rank to its second.
enum class NcclUse { collectives, messages };

// One NCCL communicator, and the stream on which its operations run, which other links may share. NCCL is in blocking
// mode, in which a call costs a few microseconds: otherwise NCCL starts a thread for each, for which the caller has to
// wait. So that nothing hangs, a thread of its own connects, and abort() ends calls of others.
class NcclLink {
 public:
  // Blocks until all ranks have called it with the same id and have exchanged a first byte: NCCL opens connections at
  // the first operation, and one that was opened in a step could wait for a rank that waits for another. It waits until
  // a rank has failed, which `host` knows, or the watchdog's time has passed: then it throws Error, and leaves behind
  // the thread that NCCL has not released.
  NcclLink(const ncclUniqueId& id, NcclPlace place, NcclUse use, std::shared_ptr<CudaStream> stream,
           std::shared_ptr<Communicator> host, double watchdog_seconds);
  // Blocks until the operations that were enqueued have ended, except after a failure and while an exception unwinds:
  // then it aborts, because other ranks may never start theirs.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;  // the watch refers to it
  NcclLink& operator=(const NcclLink&) = delete;

  cudaStream_t stream() const { return stream_->get(); }

  // Enqueues the operation on the link's stream; does not wait for the device. One thread at a time. Barriers are not
  // supported.
  void enqueue(const Request& request);

  // Any thread may call these. check() throws Error if NCCL has detected an asynchronous error, such as a broken
  // connection.
  void check();
  // Aborts operations on the device, and a call that hangs; no operation can be started afterwards.
  void abort() noexcept;

 private:
  void close();
  [[noreturn]] void refuse(const Request& request, ncclResult_t status) const;

  std::shared_ptr<Communicator> host_;
  double watchdog_seconds_;
  std::shared_ptr<CudaStream> stream_;
  std::timed_mutex calls_;  // held during calls of NCCL, which allows one at a time, but for ncclCommAbort()
  std::atomic<bool> is_aborted_{false};
  ncclComm_t communicator_ = nullptr;
  int exceptions_;  // uncaught exceptions when the link was created
};

}  // namespace llmtrain

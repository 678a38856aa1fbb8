// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <functional>
#include <memory>
#include <mutex>

#include "parallel/comm/backend.h"

namespace llmtrain {

// Throw Error(rank_lost) with the library's message if `status` is an error; `what` names the failed action: "CUDA
// cannot <what>".
void check_cuda(cudaError_t status, const char* what);
void check_nccl(ncclResult_t status, const char* what);

// A stream that does not synchronise with the default stream, with the highest priority, so that small transfers are
// not held up by large products.
class CudaStream {
 public:
  CudaStream();
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;  // work on it may be in progress
  CudaStream& operator=(const CudaStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// A CUDA event: a point on a stream, with its time.
class CudaEvent {
 public:
  CudaEvent();
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  cudaEvent_t get() const { return event_; }

  void record(cudaStream_t stream);
  bool has_passed() const;
  static double seconds_between(const CudaEvent& from, const CudaEvent& to);

 private:
  cudaEvent_t event_ = nullptr;
};

// One NCCL communicator and the stream on which its operations run. It never blocks indefinitely: NCCL runs in
// non-blocking mode, and waiting threads check for failures (NCCL's user guide, "Fault Tolerance").
class NcclLink {
 public:
  // Blocks until all `size` ranks have called it with the same id. It waits for NCCL, here and in enqueue(), until a
  // rank has failed, which `host` knows, or the watchdog's time has passed: then it throws Error.
  NcclLink(const ncclUniqueId& id, int size, int position, std::shared_ptr<Communicator> host, double watchdog_seconds);
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;  // NCCL holds its address
  NcclLink& operator=(const NcclLink&) = delete;

  cudaStream_t stream() const { return stream_.get(); }

  // Enqueues the operation on the link's stream and blocks until NCCL has accepted it, not until the device has
  // executed it. For a message the link must have two ranks, the sender first. Barriers are not supported.
  void enqueue(const Request& request);

  // Any thread may call these. check() throws Error if NCCL has detected an asynchronous error, such as a broken
  // connection.
  void check();
  // Aborts operations on the device; no operation can be started afterwards.
  void abort() noexcept;

 private:
  // Calls NCCL with the communicator and settles the result. `what` names the action in errors.
  using Call = std::function<ncclResult_t(ncclComm_t)>;
  void call(const char* what, const Call& call);
  void settle(ncclResult_t status, const char* what);
  [[noreturn]] void refuse(const char* what) const;

  std::shared_ptr<Communicator> host_;
  double watchdog_seconds_;
  CudaStream stream_;
  std::mutex mutex_;  // guards the next two
  ncclComm_t communicator_ = nullptr;
  bool is_aborted_ = false;
  int exceptions_;  // uncaught exceptions when the link was created
};

}  // namespace llmtrain

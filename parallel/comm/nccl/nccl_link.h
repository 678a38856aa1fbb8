// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <functional>
#include <memory>
#include <mutex>

#include "parallel/comm/communicator.h"
#include "parallel/comm/nccl/cuda_handles.h"

namespace llmtrain {

// Limits how long a rank waits for NCCL: until a rank has failed, or the watchdog's time has passed.
struct NcclPatience {
  std::shared_ptr<Communicator> host;
  double seconds = 600;
};

// One NCCL communicator and the stream on which its operations run. It never blocks indefinitely: NCCL runs in
// non-blocking mode, and waiting threads check for failures (NCCL's user guide, "Fault Tolerance").
class NcclLink {
 public:
  // Blocks until all `size` ranks have called it with the same id. Throws Error on failure or timeout.
  NcclLink(const ncclUniqueId& id, int size, int position, NcclPatience patience);
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;  // NCCL holds its address
  NcclLink& operator=(const NcclLink&) = delete;

  cudaStream_t stream() const { return stream_.get(); }

  // Calls NCCL with the communicator and blocks until NCCL has accepted the operation, not until the device has
  // executed it. `what` names the action in errors.
  using Call = std::function<ncclResult_t(ncclComm_t)>;
  void call(const char* what, const Call& call);

  // Any thread may call these. check() throws Error if NCCL has detected an asynchronous error, such as a broken
  // connection.
  void check();
  // Aborts operations on the device; no operation can be started afterwards.
  void abort() noexcept;

 private:
  void settle(ncclResult_t status, const char* what);
  [[noreturn]] void refuse(const char* what) const;

  NcclPatience patience_;
  CudaStream stream_;
  std::mutex mutex_;  // guards the next two
  ncclComm_t communicator_ = nullptr;
  bool is_aborted_ = false;
  int exceptions_;  // uncaught exceptions when the link was created
};

}  // namespace llmtrain

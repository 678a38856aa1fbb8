// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <functional>
#include <memory>
#include <mutex>

#include "parallel/comm/communicator.h"
#include "parallel/comm/nccl/cuda_handles.h"

namespace llmtrain {

// How long a rank waits for NCCL, which waits for other ranks: until one has failed, or the watchdog's time is over.
struct NcclPatience {
  std::shared_ptr<Communicator> host;
  double seconds = 600;
};

// One NCCL communicator and the stream that its operations run on. It never blocks where nobody could free it: NCCL is
// in its non-blocking mode, and whoever waits looks for failures meanwhile (NCCL's user guide, "Fault Tolerance").
class NcclLink {
 public:
  // Waits until all `size` ranks have called it with the same id. Throws Error.
  NcclLink(const ncclUniqueId& id, int size, int position, NcclPatience patience);
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;  // NCCL knows its address
  NcclLink& operator=(const NcclLink&) = delete;

  cudaStream_t stream() const { return stream_.get(); }

  // Calls NCCL with the communicator and waits until it has taken that over, not until the device has done it. `what`
  // was being done, for the error.
  using Call = std::function<ncclResult_t(ncclComm_t)>;
  void call(const char* what, const Call& call);

  // Any thread may call these. check() throws Error where NCCL has met one on its own: a connection that broke.
  void check();
  // Ends what it is doing on the device; nothing can be started any more.
  void abort() noexcept;

 private:
  void settle(ncclResult_t status, const char* what);
  [[noreturn]] void refuse(const char* what) const;

  NcclPatience patience_;
  CudaStream stream_;
  std::mutex mutex_;  // of the two below
  ncclComm_t communicator_ = nullptr;
  bool is_aborted_ = false;
  int exceptions_;  // that were under way where the link was made
};

}  // namespace llmtrain

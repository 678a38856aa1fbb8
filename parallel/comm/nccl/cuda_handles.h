// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <utility>

namespace llmtrain {

// Throw Error(rank_lost) with the library's words where `status` is an error; `what` was being done.
void check_cuda(cudaError_t status, const char* what);
void check_nccl(ncclResult_t status, const char* what);

// A stream that does not wait for the default one, of the highest priority: small transfers pass by large products.
class CudaStream {
 public:
  CudaStream();
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;  // work on it may be under way
  CudaStream& operator=(const CudaStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// A point on a stream, with its time.
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

// One NCCL communicator and the stream that its operations run on.
class NcclLink {
 public:
  // Blocks until all `size` ranks have called it with the same id.
  NcclLink(const ncclUniqueId& id, int size, int position);
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;  // NCCL knows its address
  NcclLink& operator=(const NcclLink&) = delete;

  ncclComm_t get() const { return communicator_; }
  cudaStream_t stream() const { return stream_.get(); }
  // Ends what it is doing on the device; nothing can be started any more. Any thread may call it, once.
  void abort() noexcept;

 private:
  CudaStream stream_;
  ncclComm_t communicator_ = nullptr;
  bool is_aborted_ = false;
};

}  // namespace llmtrain

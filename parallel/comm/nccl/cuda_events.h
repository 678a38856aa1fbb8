// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace llmtrain {

// Throws Error(rank_lost) with CUDA's message if `status` is an error; `what` names the failed action: "CUDA cannot
// <what>".
void check_cuda(cudaError_t status, const char* what);

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
  // Makes what the stream is given from now on wait for the point. Does not block.
  void hold(cudaStream_t stream) const;
  bool has_passed() const;
  static double seconds_between(const CudaEvent& from, const CudaEvent& to);

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace llmtrain

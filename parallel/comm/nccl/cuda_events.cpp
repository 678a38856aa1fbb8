// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/cuda_events.h"

#include <string>

#include "core/base/error.h"

namespace llmtrain {

void check_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw Error(ExitCode::rank_lost, std::string("CUDA cannot ") + what + ": " + cudaGetErrorString(status));
}

CudaStream::CudaStream() {
  int lowest = 0, highest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "query the priorities of streams");
  check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest), "create a stream");
}

CudaStream::~CudaStream() { cudaStreamDestroy(stream_); }

// With timing, though events without it (cudaEventDisableTiming) are cheaper: the log's durations come from them.
CudaEvent::CudaEvent() { check_cuda(cudaEventCreate(&event_), "create an event"); }

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

void CudaEvent::record(cudaStream_t stream) { check_cuda(cudaEventRecord(event_, stream), "record an event"); }

void CudaEvent::hold(cudaStream_t stream) const { check_cuda(cudaStreamWaitEvent(stream, event_, 0), "wait"); }

bool CudaEvent::has_passed() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) return false;
  check_cuda(status, "finish an operation");
  return true;
}

double CudaEvent::seconds_between(const CudaEvent& from, const CudaEvent& to) {
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, from.get(), to.get()), "time an operation");
  return milliseconds * 1e-3;
}

}  // namespace llmtrain

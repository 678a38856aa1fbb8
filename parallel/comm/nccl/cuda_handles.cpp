// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/cuda_handles.h"

#include <string>

#include "core/base/error.h"

namespace llmtrain {

void check_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw Error(ExitCode::rank_lost, std::string("CUDA cannot ") + what + ": " + cudaGetErrorString(status));
}

void check_nccl(ncclResult_t status, const char* what) {
  if (status == ncclSuccess) return;
  throw Error(ExitCode::rank_lost, std::string("NCCL cannot ") + what + ": " + ncclGetErrorString(status) +
                                       "; set NCCL_DEBUG=INFO for details");
}

CudaStream::CudaStream() {
  int lowest = 0, highest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "query the priorities of streams");
  check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest), "create a stream");
}

CudaStream::~CudaStream() { cudaStreamDestroy(stream_); }

CudaEvent::CudaEvent() { check_cuda(cudaEventCreate(&event_), "create an event"); }

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

void CudaEvent::record(cudaStream_t stream) { check_cuda(cudaEventRecord(event_, stream), "record an event"); }

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

// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_link.h"

#include <chrono>
#include <cstddef>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"

namespace llmtrain {
namespace {

// The polling interval of a rank that waits for NCCL.
constexpr std::chrono::microseconds between_looks{50};

ncclResult_t connect(ncclComm_t* communicator, const ncclUniqueId& id, int size, int position) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // Blocking calls could not be ended if another rank fails meanwhile.
  config.blocking = 0;
  return ncclCommInitRankConfig(communicator, size, id, position, &config);
}

// Indexed by ElementType and by Reduction.
constexpr ncclDataType_t data_types[] = {ncclFloat32,    ncclBfloat16, ncclFloat16, ncclFloat8e4m3,
                                         ncclFloat8e5m2, ncclInt32,    ncclInt64,   ncclUint8};
constexpr ncclRedOp_t reductions[] = {ncclSum, ncclMax, ncclMin};

// In non-blocking mode calls may return ncclInProgress; NcclLink waits for the last one.
void check_started(ncclResult_t status, const char* what) {
  if (status != ncclInProgress) check_nccl(status, what);
}

// Many calls grouped into one operation: ncclGroupEnd() starts them together, so no order of sends and receives can
// block.
ncclResult_t all_to_all(const Request& request, ncclComm_t communicator, cudaStream_t stream) {
  const ncclDataType_t type = data_types[static_cast<std::size_t>(request.type)];
  const auto size = static_cast<std::size_t>(element_size(request.type));
  const auto* input = static_cast<const std::byte*>(request.input);
  auto* output = static_cast<std::byte*>(request.output);
  check_nccl(ncclGroupStart(), "start an all_to_all");
  for (int peer = 0; peer < request.group.size(); ++peer) {
    const auto given = static_cast<std::size_t>(request.input_counts[static_cast<std::size_t>(peer)]);
    const auto taken = static_cast<std::size_t>(request.output_counts[static_cast<std::size_t>(peer)]);
    if (given > 0) check_started(ncclSend(input, given, type, peer, communicator, stream), "send");
    if (taken > 0) check_started(ncclRecv(output, taken, type, peer, communicator, stream), "receive");
    input += given * size;
    output += taken * size;
  }
  return ncclGroupEnd();
}

ncclResult_t start_operation(const Request& request, ncclComm_t communicator, cudaStream_t stream) {
  // Messages use a communicator of two ranks, the sender first.
  constexpr int sender = 0, receiver = 1;
  const auto count = static_cast<std::size_t>(request.count);
  const ncclDataType_t type = data_types[static_cast<std::size_t>(request.type)];
  const ncclRedOp_t operation = reductions[static_cast<std::size_t>(request.reduction)];
  const void* input = request.input;
  void* output = request.output;
  // Sizes and types were checked by Communicator.
  switch (request.collective) {
    case Collective::all_reduce:
      return ncclAllReduce(input, output, count, type, operation, communicator, stream);
    case Collective::all_gather:
      return ncclAllGather(input, output, count, type, communicator, stream);
    case Collective::reduce_scatter:
      return ncclReduceScatter(input, output, count, type, operation, communicator, stream);
    case Collective::broadcast:
      return ncclBroadcast(input, output, count, type, request.peer, communicator, stream);
    case Collective::all_to_all:
      return all_to_all(request, communicator, stream);
    case Collective::send:
      return ncclSend(input, count, type, receiver, communicator, stream);
    case Collective::receive:
      return ncclRecv(output, count, type, sender, communicator, stream);
    case Collective::barrier:
      break;
  }
  return ncclSuccess;
}

}  // namespace

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

// With timing, though events without it (cudaEventDisableTiming) are cheaper: the log's durations come from them.
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

NcclLink::NcclLink(const ncclUniqueId& id, int size, int position, std::shared_ptr<Communicator> host,
                   double watchdog_seconds)
    : host_(std::move(host)), watchdog_seconds_(watchdog_seconds), exceptions_(std::uncaught_exceptions()) {
  try {
    settle(connect(&communicator_, id, size, position), "connect the ranks of a group");
  } catch (const Error&) {
    abort();
    throw;
  }
}

// Completes the operations that all ranks have started. While an exception unwinds it aborts instead, because the other
// ranks may never start theirs.
NcclLink::~NcclLink() {
  if (std::uncaught_exceptions() > exceptions_) abort();
  try {
    if (!is_aborted_) call("complete pending operations", ncclCommFinalize);
    if (!is_aborted_) check_nccl(ncclCommDestroy(communicator_), "disconnect the ranks of a group");
  } catch (const Error& error) {
    log().debug("{}", error.what());
    abort();
  }
}

void NcclLink::enqueue(const Request& request) {
  const std::string what = "start " + request.description();
  call(what.c_str(), [&](ncclComm_t communicator) { return start_operation(request, communicator, stream()); });
}

void NcclLink::call(const char* what, const Call& call) {
  ncclResult_t status = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (is_aborted_) refuse(what);
    status = call(communicator_);
  }
  settle(status, what);
}

void NcclLink::settle(ncclResult_t status, const char* what) {
  Deadline deadline(watchdog_seconds_);
  while (status == ncclInProgress) {
    raise_if_failed(*host_);
    if (deadline.has_passed()) {
      throw Error(ExitCode::rank_lost, timeout_message(host_->rank(), watchdog_seconds_, host_->log().activity(),
                                                       std::string("NCCL, to ") + what, "other ranks of a group"));
    }
    // Without the mutex, so that abort() can interrupt the wait.
    std::this_thread::sleep_for(between_looks);
    const std::lock_guard lock(mutex_);
    if (is_aborted_) refuse(what);
    check_nccl(ncclCommGetAsyncError(communicator_, &status), what);
  }
  check_nccl(status, what);
}

// For calls after abort(), which follows the failure of a rank.
void NcclLink::refuse(const char* what) const {
  raise_if_failed(*host_);
  throw Error(ExitCode::rank_lost, std::string("NCCL cannot ") + what + ": the connection was aborted");
}

void NcclLink::check() {
  const std::lock_guard lock(mutex_);
  if (is_aborted_ || communicator_ == nullptr) return;
  ncclResult_t status = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(communicator_, &status), "report its errors");
  if (status != ncclInProgress) check_nccl(status, "continue an operation");
}

void NcclLink::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_aborted_, true) || communicator_ == nullptr) return;
  ncclCommAbort(communicator_);
}

}  // namespace llmtrain

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
#include "parallel/comm/nccl/nccl_connect.h"

namespace llmtrain {
namespace {

// How long abort() lets a call of another thread come to its end.
constexpr std::chrono::seconds for_calls{1};
constexpr std::chrono::microseconds between_looks{50};

// Indexed by ElementType and by Reduction.
constexpr ncclDataType_t data_types[] = {ncclFloat32,    ncclBfloat16, ncclFloat16, ncclFloat8e4m3,
                                         ncclFloat8e5m2, ncclInt32,    ncclInt64,   ncclUint8};
constexpr ncclRedOp_t reductions[] = {ncclSum, ncclMax, ncclMin};

// Many calls grouped into one operation: ncclGroupEnd() starts them together, so no order of sends and receives can
// block.
ncclResult_t all_to_all(const Request& request, ncclComm_t communicator, cudaStream_t stream) {
  const ncclDataType_t type = data_types[static_cast<std::size_t>(request.type)];
  const auto size = static_cast<std::size_t>(element_size(request.type));
  const auto* input = static_cast<const std::byte*>(request.input);
  auto* output = static_cast<std::byte*>(request.output);
  NcclTogether together;
  for (int peer = 0; peer < request.group.size(); ++peer) {
    const auto given = static_cast<std::size_t>(request.input_counts[static_cast<std::size_t>(peer)]);
    const auto taken = static_cast<std::size_t>(request.output_counts[static_cast<std::size_t>(peer)]);
    if (given > 0) check_nccl(ncclSend(input, given, type, peer, communicator, stream), "send");
    if (taken > 0) check_nccl(ncclRecv(output, taken, type, peer, communicator, stream), "receive");
    input += given * size;
    output += taken * size;
  }
  together.end();
  return ncclSuccess;
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

void check_nccl(ncclResult_t status, const char* what) {
  if (status == ncclSuccess) return;
  throw Error(ExitCode::rank_lost, std::string("NCCL cannot ") + what + ": " + ncclGetErrorString(status) +
                                       "; set NCCL_DEBUG=INFO for details");
}

NcclLink::NcclLink(const ncclUniqueId& id, NcclPlace place, NcclUse use, std::shared_ptr<CudaStream> stream,
                   std::shared_ptr<Communicator> host, double watchdog_seconds)
    : host_(std::move(host)),
      watchdog_seconds_(watchdog_seconds),
      stream_(std::move(stream)),
      communicator_(connect_ranks(id, place, use, stream_, *host_, watchdog_seconds)),
      exceptions_(std::uncaught_exceptions()) {}

NcclLink::~NcclLink() {
  if (std::uncaught_exceptions() > exceptions_ || host_->failure()) abort();
  try {
    if (!is_aborted_) close();
  } catch (const Error& error) {
    log().debug("{}", error.what());
    abort();
  }
}

// Waits for the device first, because nothing could end NCCL's own waiting.
void NcclLink::close() {
  CudaEvent end;
  end.record(stream());
  Deadline deadline(watchdog_seconds_);
  while (!end.has_passed()) {
    raise_if_failed(*host_);
    if (deadline.has_passed()) throw Error(ExitCode::rank_lost, "NCCL cannot complete pending operations");
    std::this_thread::sleep_for(between_looks);
  }
  const std::lock_guard lock(calls_);
  if (is_aborted_.exchange(true)) return;
  check_nccl(ncclCommFinalize(communicator_), "complete pending operations");
  check_nccl(ncclCommDestroy(communicator_), "disconnect the ranks of a group");
}

void NcclLink::enqueue(const Request& request) {
  const std::lock_guard lock(calls_);
  if (is_aborted_) refuse(request, ncclSuccess);
  try {
    const ncclResult_t status = start_operation(request, communicator_, stream());
    if (status != ncclSuccess) refuse(request, status);
  } catch (const Error&) {
    raise_if_failed(*host_);
    throw;
  }
}

// After abort(), which follows the failure of a rank, that failure is what counts.
void NcclLink::refuse(const Request& request, ncclResult_t status) const {
  raise_if_failed(*host_);
  const std::string what = "start " + request.description();
  check_nccl(status, what.c_str());
  throw Error(ExitCode::rank_lost, "NCCL cannot " + what + ": the connection was aborted");
}

void NcclLink::check() {
  const std::unique_lock lock(calls_, std::try_to_lock);
  // While the rank calls NCCL the next look finds an error as well.
  if (!lock.owns_lock() || is_aborted_) return;
  ncclResult_t status = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(communicator_, &status), "report its errors");
  check_nccl(status, "continue an operation");
}

void NcclLink::abort() noexcept {
  if (is_aborted_.exchange(true)) return;
  // A call that has not come back until then hangs: aborting makes NCCL end it.
  const std::unique_lock lock(calls_, for_calls);
  ncclCommAbort(communicator_);
}

}  // namespace llmtrain

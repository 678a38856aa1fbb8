// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_calls.h"

#include <cstddef>
#include <string>

namespace llmtrain {
namespace {

ncclDataType_t data_type(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return ncclFloat32;
    case ElementType::bfloat16:
      return ncclBfloat16;
    case ElementType::float16:
      return ncclFloat16;
    case ElementType::float8_e4m3:
      return ncclFloat8e4m3;
    case ElementType::float8_e5m2:
      return ncclFloat8e5m2;
    case ElementType::int32:
      return ncclInt32;
    case ElementType::int64:
      return ncclInt64;
    case ElementType::uint8:
      break;
  }
  return ncclUint8;
}

ncclRedOp_t reduction(Reduction reduction) {
  switch (reduction) {
    case Reduction::max:
      return ncclMax;
    case Reduction::min:
      return ncclMin;
    case Reduction::sum:
      break;
  }
  return ncclSum;
}

// In non-blocking mode calls may return ncclInProgress; NcclLink waits for the last one.
void check_started(ncclResult_t status, const char* what) {
  if (status != ncclInProgress) check_nccl(status, what);
}

// Many calls grouped into one operation: ncclGroupEnd() starts them together, so no order of sends and receives can
// block.
ncclResult_t all_to_all(const Request& request, ncclComm_t communicator, cudaStream_t stream) {
  const ncclDataType_t type = data_type(request.type);
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

ncclResult_t start(const Request& request, ncclComm_t communicator, cudaStream_t stream) {
  // Messages use a communicator of two ranks, the sender first.
  constexpr int sender = 0, receiver = 1;
  const auto count = static_cast<std::size_t>(request.count);
  const ncclDataType_t type = data_type(request.type);
  const ncclRedOp_t operation = reduction(request.reduction);
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

void enqueue(const Request& request, NcclLink& link) {
  const std::string what = "start " + request.description();
  link.call(what.c_str(), [&](ncclComm_t communicator) { return start(request, communicator, link.stream()); });
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_calls.h"

#include <cstddef>

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

void all_to_all(const Request& request, const NcclLink& link) {
  const ncclDataType_t type = data_type(request.type);
  const auto size = static_cast<std::size_t>(element_size(request.type));
  const auto* input = static_cast<const std::byte*>(request.input);
  auto* output = static_cast<std::byte*>(request.output);
  check_nccl(ncclGroupStart(), "start an all_to_all");
  for (int peer = 0; peer < request.group.size(); ++peer) {
    const auto given = static_cast<std::size_t>(request.input_counts[static_cast<std::size_t>(peer)]);
    const auto taken = static_cast<std::size_t>(request.output_counts[static_cast<std::size_t>(peer)]);
    if (given > 0) check_nccl(ncclSend(input, given, type, peer, link.get(), link.stream()), "send");
    if (taken > 0) check_nccl(ncclRecv(output, taken, type, peer, link.get(), link.stream()), "receive");
    input += given * size;
    output += taken * size;
  }
  check_nccl(ncclGroupEnd(), "start an all_to_all");
}

}  // namespace

void enqueue(const Request& request, const NcclLink& link) {
  constexpr int sender = 0, receiver = 1;
  const auto count = static_cast<std::size_t>(request.count);
  const ncclDataType_t type = data_type(request.type);
  const ncclRedOp_t operation = reduction(request.reduction);
  const void* input = request.input;
  void* output = request.output;
  switch (request.collective) {
    case Collective::all_reduce:
      return check_nccl(ncclAllReduce(input, output, count, type, operation, link.get(), link.stream()), "all_reduce");
    case Collective::all_gather:
      return check_nccl(ncclAllGather(input, output, count, type, link.get(), link.stream()), "all_gather");
    case Collective::reduce_scatter:
      return check_nccl(ncclReduceScatter(input, output, count, type, operation, link.get(), link.stream()),
                        "reduce_scatter");
    case Collective::broadcast:
      return check_nccl(ncclBroadcast(input, output, count, type, request.peer, link.get(), link.stream()),
                        "broadcast");
    case Collective::all_to_all:
      return all_to_all(request, link);
    case Collective::send:
      return check_nccl(ncclSend(input, count, type, receiver, link.get(), link.stream()), "send");
    case Collective::receive:
      return check_nccl(ncclRecv(output, count, type, sender, link.get(), link.stream()), "receive");
    case Collective::barrier:
      return;
  }
}

}  // namespace llmtrain

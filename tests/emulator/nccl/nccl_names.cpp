// SPDX-License-Identifier: Apache-2.0
// Functions of NCCL, by their own names, over the emulated device.
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <thread>

#include "tests/emulator/cuda/guarded.h"
#include "tests/emulator/nccl/collectives.h"
#include "tests/emulator/nccl/element_types.h"
#include "tests/emulator/nccl/messages.h"

namespace {

using namespace emulated;

void join(ncclComm* comm, const std::string& name) {
  try {
    comm->connect(name);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "emulated: %s\n", error.what());
    comm->state = ncclSystemError;
  }
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "/emulated-nccl-%d-%08x%08x", getpid(), random(), random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (size < 1 || size > most_ranks || rank < 0 || rank >= size) return ncclInvalidArgument;
  auto* const comm = new ncclComm(size, rank, current_device());
  count("communicators", "created");
  *made = comm;
  std::thread joining(join, comm, std::string(id.internal));
  if (config != nullptr && config->blocking == 0) {
    joining.detach();
    return ncclInProgress;
  }
  joining.join();
  return comm->state;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) { return *state = comm->state, ncclSuccess; }

const char* ncclGetErrorString(ncclResult_t result) {
  if (result == ncclSuccess) return "no error";
  return last_error().empty() ? "error (emulated)" : last_error().c_str();
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return comm->usable(); }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->usable() == ncclInvalidArgument) return ncclInvalidArgument;
  comm->destroy();
  count("communicators", "destroyed");
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->abort();
  count("communicators", "aborted");
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() { return begin_group(), ncclSuccess; }
ncclResult_t ncclGroupEnd() { return end_group(); }

ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  const Call call{Kind::all_reduce, 0, count, type, operation, 0};
  return start_collective(comm, call, input, output, 1, 1, stream_of(stream));
}
ncclResult_t ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const Call call{Kind::all_gather, 0, count, type, 0, 0};
  return start_collective(comm, call, input, output, 1, comm->size, stream_of(stream));
}
ncclResult_t ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  const Call call{Kind::reduce_scatter, 0, count, type, operation, 0};
  return start_collective(comm, call, input, output, comm->size, 1, stream_of(stream));
}
ncclResult_t ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const Call call{Kind::broadcast, 0, count, type, 0, root};
  return start_collective(comm, call, input, output, 1, 1, stream_of(stream));
}
ncclResult_t ncclSend(const void* input, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_message(comm, true, input, count * type_bytes(type), peer, stream_of(stream));
}
ncclResult_t ncclRecv(void* output, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add_message(comm, false, output, count * type_bytes(type), peer, stream_of(stream));
}

}  // extern "C"

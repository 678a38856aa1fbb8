// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/nccl/collectives.h"

#include <algorithm>
#include <cstring>

#include "tests/emulator/cuda/guarded.h"
#include "tests/emulator/nccl/element_types.h"

namespace emulated {
namespace {

// One rank's part in one collective, piece by piece.
class Collective {
 public:
  Collective(ncclComm* comm, const Call& call, const char* input, char* output)
      : comm_(comm), call_(call), input_(input), output_(output), bytes_(call.count * type_bytes(type())) {}

  void run() {
    comm_->check_state();
    call_.number = ++comm_->calls;
    agree();
    // The part of rank `part` in reduce_scatter's input; others have one part.
    const int parts = call_.kind == Kind::reduce_scatter ? comm_->size : 1;
    for (int part = 0; part < parts; ++part)
      for (std::size_t begin = 0; begin < bytes_; begin += piece_bytes) pass(part, begin);
    comm_->barrier(call_.text());
  }

 private:
  ncclDataType_t type() const { return static_cast<ncclDataType_t>(call_.type); }

  void agree() {
    comm_->shared->calls[comm_->rank] = call_;
    comm_->barrier(call_.text());
    for (int r = 0; r < comm_->size; ++r) {
      const Call& other = comm_->shared->calls[r];
      if (other == call_) continue;
      comm_->fail("ranks disagree: rank " + std::to_string(comm_->rank) + " calls " + call_.text() + ", rank " +
                  std::to_string(r) + " calls " + other.text());
    }
  }

  void pass(int part, std::size_t begin) {
    const std::size_t n = std::min(piece_bytes, bytes_ - begin);
    comm_->barrier(call_.text());
    if (call_.kind != Kind::broadcast || comm_->rank == call_.root)
      std::memcpy(comm_->slot(comm_->rank), input_ + static_cast<std::size_t>(part) * bytes_ + begin, n);
    comm_->barrier(call_.text());
    take(part, begin, n);
  }

  void take(int part, std::size_t begin, std::size_t n) {
    switch (call_.kind) {
      case Kind::none:
        return;
      case Kind::broadcast:
        std::memcpy(output_ + begin, comm_->slot(call_.root), n);
        return;
      case Kind::all_gather:
        for (int r = 0; r < comm_->size; ++r)
          std::memcpy(output_ + static_cast<std::size_t>(r) * bytes_ + begin, comm_->slot(r), n);
        return;
      case Kind::all_reduce:
        return reduce(begin, n);
      case Kind::reduce_scatter:
        if (part == comm_->rank) reduce(begin, n);
        return;
    }
  }

  void reduce(std::size_t begin, std::size_t n) {
    // Not in the output, which may be the input of ranks that still read it.
    std::string sum(comm_->slot(0), n);
    for (int r = 1; r < comm_->size; ++r)
      combine(sum.data(), comm_->slot(r), n, type(), static_cast<ncclRedOp_t>(call_.operation));
    std::memcpy(output_ + begin, sum.data(), n);
  }

  ncclComm* comm_;
  Call call_;
  const char* input_;
  char* output_;
  std::size_t bytes_;  // of a part
};

}  // namespace

void check_place(const ncclComm& comm, const void* memory, std::size_t bytes, Stream* stream) {
  if (device_of(stream) != comm.device)
    throw Fault("NCCL's communicator is of device " + std::to_string(comm.device) + ", the stream of device " +
                std::to_string(device_of(stream)));
  if (bytes > 0 && device_of_memory(memory) != comm.device && !is_pinned(memory))
    throw Fault("NCCL is given memory that is not of device " + std::to_string(comm.device));
}

ncclResult_t start_collective(ncclComm* comm, Call call, const void* input, void* output, int input_parts,
                              int output_parts, Stream* stream) {
  if (comm->usable() != ncclSuccess) return comm->usable();
  const std::size_t bytes = call.count * type_bytes(static_cast<ncclDataType_t>(call.type));
  const std::size_t bytes_in = bytes * static_cast<std::size_t>(input_parts);
  const std::size_t bytes_out = bytes * static_cast<std::size_t>(output_parts);
  const bool reads = call.kind != Kind::broadcast || comm->rank == call.root;
  const cudaError_t status = guarded([&] {
    std::vector<Access> accesses{{output, bytes_out, true}};
    check_place(*comm, output, bytes_out, stream);
    if (reads) {
      check_place(*comm, input, bytes_in, stream);
      accesses.push_back({input, bytes_in, false});
    }
    enqueue(stream, {name_of(call.kind), accesses, [=] {
                       Collective part(comm, call, static_cast<const char*>(reachable(input)),
                                       static_cast<char*>(reachable(output)));
                       unless_aborted([&] { part.run(); });
                     }});
  });
  count("collectives", name_of(call.kind));
  return status == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace emulated

// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA's runtime and of NCCL that a communicator needs, by their own names, over the emulated device.
// Ranks are threads or processes: data pass through POSIX shared memory. Every collective first compares what the ranks
// have called; NCCL itself would hang or mix data up.
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

#include "tests/emulator/device/runtime.h"

namespace {

using namespace emulated;

// --- CUDA's runtime -----------------------------------------------------------------------------------------------

thread_local std::string last_error;

template <class Function>
cudaError_t guarded(const Function& function) {
  try {
    function();
    return cudaSuccess;
  } catch (const OutOfMemory& error) {
    last_error = error.what();
    return cudaErrorMemoryAllocation;
  } catch (const std::exception& error) {
    last_error = error.what();
    std::fprintf(stderr, "emulated: %s\n", error.what());
    return cudaErrorUnknown;
  }
}

Stream* stream_of(cudaStream_t stream) {
  return stream != nullptr ? reinterpret_cast<Stream*>(stream) : default_stream(current_device());
}
MarkPointer& mark_of(cudaEvent_t event) { return *reinterpret_cast<MarkPointer*>(event); }

// Without a tensor's type: bytes.
cudaError_t copy(void* to, const void* from, std::size_t bytes, Stream* stream) {
  return guarded([&] {
    enqueue(stream, {"cudaMemcpyAsync", {{to, bytes, true}, {from, bytes, false}},
                     [=] { std::memcpy(reachable(to), reachable(from), bytes); }});
  });
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) { return *count = settings().devices, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = current_device(), cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return exchange_device(device), cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : last_error.c_str(); }
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return guarded([&] { *memory = allocate(current_device(), bytes); });
}
cudaError_t cudaFree(void* memory) {
  return guarded([&] {
    if (memory != nullptr) synchronize_device(device_of_memory(memory), "cudaFree");
    release(memory);
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return copy(to, from, bytes, stream_of(stream));
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  const cudaError_t status = copy(to, from, bytes, stream_of(nullptr));
  return status != cudaSuccess ? status : guarded([] { synchronize(stream_of(nullptr), "cudaMemcpy"); });
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) { return *lowest = 0, *highest = -5, cudaSuccess; }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return guarded([&] { *stream = reinterpret_cast<cudaStream_t>(new_stream(current_device())); });
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return guarded([&] { synchronize(stream_of(stream), "cudaStreamSynchronize"); });
}
cudaError_t cudaDeviceSynchronize() {
  return guarded([] { synchronize_device(current_device(), "cudaDeviceSynchronize"); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return guarded([&] { wait(stream_of(stream), mark_of(event)); });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return *event = reinterpret_cast<cudaEvent_t>(new MarkPointer), cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete &mark_of(event), cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return guarded([&] { mark_of(event) = record(stream_of(stream)); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  bool has_passed = false;
  const cudaError_t status = guarded([&] { has_passed = query(mark_of(event)); });
  return status != cudaSuccess || has_passed ? status : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return guarded([&] { *milliseconds = static_cast<float>(1e3 * (seconds_of(mark_of(to)) - seconds_of(mark_of(from)))); });
}

}  // extern "C"

// --- NCCL ---------------------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t piece = std::size_t{1} << 18;  // bytes that pass at once
constexpr int most_ranks = 64;

enum class Kind : std::uint8_t { none, all_reduce, all_gather, reduce_scatter, broadcast };
constexpr const char* kind_names[] = {"nothing", "ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast"};

struct Call {
  Kind kind = Kind::none;
  std::uint64_t number = 0, count = 0;
  int type = 0, operation = 0, root = 0;
  std::string text() const {
    return std::string(kind_names[static_cast<int>(kind)]) + " of " + std::to_string(count) + " elements of type " +
           std::to_string(type) + (kind == Kind::broadcast ? " from rank " + std::to_string(root) : "") + " as call " +
           std::to_string(number);
  }
  bool operator==(const Call&) const = default;
};

// In shared memory: `ranks` slots of `piece` bytes for collectives, and one per pair for messages.
struct Shared {
  std::atomic<int> joined{0}, left{0}, arrived{0}, aborted{0};
  std::atomic<std::uint64_t> round{0};
  Call calls[most_ranks];
};
struct Message {
  std::atomic<std::uint64_t> bytes{0};  // of the piece inside, 0: empty
  std::uint64_t whole = 0;
  char data[piece];
};

std::size_t type_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8: case ncclUint8: case ncclFloat8e4m3: case ncclFloat8e5m2: return 1;
    case ncclFloat16: case ncclBfloat16: return 2;
    case ncclInt32: case ncclUint32: case ncclFloat32: return 4;
    default: return 8;
  }
}

float widened(std::uint16_t bits, ncclDataType_t type) {
  if (type == ncclBfloat16) {
    const std::uint32_t word = std::uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
  _Float16 half;
  std::memcpy(&half, &bits, 2);
  return static_cast<float>(half);
}
std::uint16_t narrowed(float value, ncclDataType_t type) {
  std::uint16_t bits = 0;
  if (type == ncclBfloat16) {
    std::uint32_t word;
    std::memcpy(&word, &value, 4);
    bits = static_cast<std::uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
  } else {
    const auto half = static_cast<_Float16>(value);
    std::memcpy(&bits, &half, 2);
  }
  return bits;
}

template <class T>
void combine(char* sum, const char* other, std::size_t bytes, int operation) {
  for (std::size_t i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, sum + i, sizeof(T));
    std::memcpy(&b, other + i, sizeof(T));
    a = operation == ncclMax ? std::max(a, b) : operation == ncclMin ? std::min(a, b) : static_cast<T>(a + b);
    std::memcpy(sum + i, &a, sizeof(T));
  }
}
void combine(char* sum, const char* other, std::size_t bytes, ncclDataType_t type, int operation) {
  switch (type) {
    case ncclFloat32: return combine<float>(sum, other, bytes, operation);
    case ncclFloat64: return combine<double>(sum, other, bytes, operation);
    case ncclInt32: return combine<std::int32_t>(sum, other, bytes, operation);
    case ncclInt64: return combine<std::int64_t>(sum, other, bytes, operation);
    case ncclUint8: return combine<std::uint8_t>(sum, other, bytes, operation);
    case ncclFloat16: case ncclBfloat16:
      for (std::size_t i = 0; i < bytes; i += 2) {
        std::uint16_t a, b;
        std::memcpy(&a, sum + i, 2);
        std::memcpy(&b, other + i, 2);
        float x = widened(a, type), y = widened(b, type);
        combine<float>(reinterpret_cast<char*>(&x), reinterpret_cast<char*>(&y), 4, operation);
        a = narrowed(x, type);  // after each addition: NCCL rounds elsewhere
        std::memcpy(sum + i, &a, 2);
      }
      return;
    default: throw Fault("NCCL has no sum of this type here");
  }
}

}  // namespace

struct ncclComm {
  std::string name;
  int size = 0, rank = 0, device = 0;
  Shared* shared = nullptr;
  Message* messages = nullptr;  // [from][to]
  char* slots = nullptr;
  std::size_t bytes = 0;
  std::uint64_t number = 0;  // of the stream's collectives
  std::atomic<ncclResult_t> state{ncclInProgress};
  std::mutex mutex;
  std::string error;

  void wait_until(const std::function<bool()>& is_true, const std::string& what) {
    static const char* const limit = std::getenv("EMULATED_NCCL_SECONDS");
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(limit != nullptr ? std::atoi(limit) : 60);
    for (int turn = 0; !is_true(); ++turn) {
      if (shared->aborted > 0) throw Fault("NCCL's communicator was aborted during " + what);
      if (std::chrono::steady_clock::now() > until) fail(what + ": another rank has not called it in time (NCCL would hang)");
      if (turn < 100) std::this_thread::yield(); else std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  [[noreturn]] void fail(const std::string& what) {
    const std::lock_guard lock(mutex);
    error = what;
    state = ncclInvalidUsage;
    throw Fault(what);
  }
  void barrier(const std::string& what) {
    const std::uint64_t round = shared->round;
    if (++shared->arrived == size) {
      shared->arrived = 0;
      ++shared->round;
    } else {
      wait_until([&] { return shared->round != round; }, what);
    }
  }
};

namespace {

char* slot(ncclComm* c, int rank) { return c->slots + static_cast<std::size_t>(rank) * piece; }

void run_collective(ncclComm* c, Call call, const char* input, char* output) {
  if (c->state != ncclSuccess) throw Fault("the communicator has failed: " + c->error);
  call.number = ++c->number;
  const auto type = static_cast<ncclDataType_t>(call.type);
  c->shared->calls[c->rank] = call;
  c->barrier(call.text());
  for (int r = 0; r < c->size; ++r) {
    if (c->shared->calls[r] == call) continue;
    c->fail("ranks disagree: rank " + std::to_string(c->rank) + " calls " + call.text() + ", rank " + std::to_string(r) +
            " calls " + c->shared->calls[r].text());
  }
  const std::size_t bytes = call.count * type_bytes(type);
  const auto ranks = static_cast<std::size_t>(c->size);
  // The part of rank `to` in reduce_scatter's input; others have one part.
  const std::size_t parts = call.kind == Kind::reduce_scatter ? ranks : 1;
  std::string sum(std::min(bytes, piece), '\0');
  for (std::size_t part = 0; part < parts; ++part) {
    for (std::size_t begin = 0; begin < bytes; begin += piece) {
      const std::size_t n = std::min(piece, bytes - begin);
      c->barrier(call.text());
      if (call.kind != Kind::broadcast || c->rank == call.root)
        std::memcpy(slot(c, c->rank), input + part * bytes + begin, n);
      c->barrier(call.text());
      if (call.kind == Kind::broadcast) {
        std::memcpy(output + begin, slot(c, call.root), n);
      } else if (call.kind == Kind::all_gather) {
        for (int r = 0; r < c->size; ++r) std::memcpy(output + static_cast<std::size_t>(r) * bytes + begin, slot(c, r), n);
      } else if (call.kind == Kind::all_reduce || part == static_cast<std::size_t>(c->rank)) {
        std::memcpy(sum.data(), slot(c, 0), n);
        for (int r = 1; r < c->size; ++r) combine(sum.data(), slot(c, r), n, type, call.operation);
        std::memcpy(output + begin, sum.data(), n);
      }
    }
  }
  c->barrier(call.text());
}

// A send or receive that makes progress piece by piece.
struct Transfer {
  ncclComm* comm;
  bool is_send;
  int peer;
  char* memory;
  std::size_t bytes, done = 0;
  bool has_finished() const { return done == bytes; }
  bool advance() {
    if (has_finished()) return false;
    Message& m = is_send ? comm->messages[comm->rank * comm->size + peer] : comm->messages[peer * comm->size + comm->rank];
    if (is_send) {
      if (m.bytes != 0) return false;
      const std::size_t n = std::min(piece, bytes - done);
      m.whole = bytes;
      std::memcpy(m.data, static_cast<char*>(reachable(memory)) + done, n);
      m.bytes = n;
      done += n;
    } else {
      const std::size_t n = m.bytes;
      if (n == 0) return false;
      if (m.whole != bytes)
        comm->fail("ncclRecv of " + std::to_string(bytes) + " bytes meets ncclSend of " + std::to_string(m.whole));
      std::memcpy(static_cast<char*>(reachable(memory)) + done, m.data, n);
      m.bytes = 0;
      done += n;
    }
    return true;
  }
};

// What ncclGroupEnd() starts: all messages of a group are under way at once.
struct GroupOf {
  std::vector<Transfer> transfers;
  Stream* stream = nullptr;
};
thread_local int depth = 0;
thread_local GroupOf group;

ncclResult_t start_group() {
  if (group.transfers.empty()) return ncclSuccess;
  std::vector<Access> accesses;
  for (const Transfer& t : group.transfers) accesses.push_back({t.memory, t.bytes, !t.is_send});
  Stream* const stream = group.stream;
  auto transfers = std::exchange(group.transfers, {});
  const cudaError_t status = guarded([&] {
    enqueue(stream, {transfers.size() == 1 && transfers[0].is_send ? "ncclSend" : "ncclRecv", accesses, [transfers]() mutable {
                       // The order among messages to one peer is kept.
                       transfers[0].comm->wait_until(
                           [&] {
                             bool all = true;
                             for (std::size_t i = 0; i < transfers.size(); ++i) {
                               const bool is_blocked = std::any_of(transfers.begin(), transfers.begin() + static_cast<std::ptrdiff_t>(i), [&](const Transfer& t) {
                                 return t.peer == transfers[i].peer && t.is_send == transfers[i].is_send && !t.has_finished();
                               });
                               if (!is_blocked) while (transfers[i].advance()) {}
                               all = all && transfers[i].has_finished();
                             }
                             return all;
                           },
                           transfers[0].is_send ? "ncclSend" : "ncclRecv");
                     }});
  });
  return status == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t add_transfer(ncclComm* c, bool is_send, const void* memory, std::size_t count, ncclDataType_t type, int peer,
                          cudaStream_t stream) {
  if (c->state == ncclInProgress) return ncclInvalidUsage;
  group.transfers.push_back({c, is_send, peer, static_cast<char*>(const_cast<void*>(memory)), count * type_bytes(type)});
  group.stream = stream_of(stream);
  return depth > 0 ? ncclSuccess : start_group();
}

ncclResult_t start_collective(ncclComm* c, Call call, const void* input, void* output, std::size_t input_parts,
                              std::size_t output_parts, cudaStream_t stream) {
  if (c->state == ncclInProgress) return ncclInvalidUsage;
  const std::size_t bytes = call.count * type_bytes(static_cast<ncclDataType_t>(call.type));
  std::vector<Access> accesses{{output, bytes * output_parts, true}};
  if (call.kind != Kind::broadcast || c->rank == call.root) accesses.push_back({input, bytes * input_parts, false});
  const cudaError_t status = guarded([&] {
    enqueue(stream_of(stream), {kind_names[static_cast<int>(call.kind)], accesses, [=] {
                                  run_collective(c, call, static_cast<const char*>(reachable(input)),
                                                 static_cast<char*>(reachable(output)));
                                }});
  });
  return status == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

void connect(ncclComm* c, const std::string& name) {
  const std::size_t head = (sizeof(Shared) + 63) / 64 * 64, slots = static_cast<std::size_t>(c->size) * piece;
  c->bytes = head + slots + sizeof(Message) * static_cast<std::size_t>(c->size * c->size);
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(c->bytes)) != 0) throw Fault("no shared memory");
  auto* base = static_cast<char*>(mmap(nullptr, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  close(file);
  // Zeros are valid initial values of everything inside.
  c->shared = reinterpret_cast<Shared*>(base);
  c->slots = base + head;
  c->messages = reinterpret_cast<Message*>(base + head + slots);
  ++c->shared->joined;
  c->wait_until([c] { return c->shared->joined >= c->size; }, "ncclCommInitRank");
  if (c->rank == 0) shm_unlink(name.c_str());
  c->state = ncclSuccess;
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
  if (size > most_ranks) return ncclInvalidArgument;
  auto* const c = new ncclComm;  // never freed: pending work refers to it
  c->size = size;
  c->rank = rank;
  c->device = current_device();
  *made = c;
  std::thread joining([c, name = std::string(id.internal)] {
    try {
      connect(c, name);
    } catch (const std::exception& error) {
      c->state = ncclSystemError;
    }
  });
  if (config != nullptr && config->blocking == 0) {
    joining.detach();
    return ncclInProgress;
  }
  joining.join();
  return c->state;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t* state) { return *state = c->state, ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : result == ncclInvalidUsage ? "invalid usage (emulated)" : "error (emulated)";
}
ncclResult_t ncclCommFinalize(ncclComm_t c) { return c->state == ncclInProgress ? ncclInvalidUsage : ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommAbort(ncclComm_t c) {
  if (c->shared != nullptr) ++c->shared->aborted;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() { return ++depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() { return --depth > 0 ? ncclSuccess : start_group(); }
ncclResult_t ncclAllReduce(const void* in, void* out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
  return start_collective(c, {Kind::all_reduce, 0, n, t, op, 0}, in, out, 1, 1, s);
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t s) {
  return start_collective(c, {Kind::all_gather, 0, n, t, 0, 0}, in, out, 1, static_cast<std::size_t>(c->size), s);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
  return start_collective(c, {Kind::reduce_scatter, 0, n, t, op, 0}, in, out, static_cast<std::size_t>(c->size), 1, s);
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t n, ncclDataType_t t, int root, ncclComm_t c, cudaStream_t s) {
  return start_collective(c, {Kind::broadcast, 0, n, t, 0, root}, in, out, 1, 1, s);
}
ncclResult_t ncclSend(const void* in, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t s) {
  return add_transfer(c, true, in, n, t, peer, s);
}
ncclResult_t ncclRecv(void* out, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t s) {
  return add_transfer(c, false, out, n, t, peer, s);
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_connect.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/error.h"

namespace llmtrain {
namespace {

// How often the waiting rank looks for failures of others.
constexpr std::chrono::milliseconds between_checks{5};

// What the connecting thread and the waiting rank share. The thread may outlive the rank's patience, and its link.
struct Connection {
  std::mutex mutex;
  std::condition_variable changed;
  bool has_ended = false;
  bool is_given_up = false;
  ncclComm_t communicator = nullptr;
  std::exception_ptr error;
};

// A byte of the device's memory for the first exchange.
class DeviceByte {
 public:
  DeviceByte() { check_cuda(cudaMalloc(&memory_, 1), "allocate"); }
  ~DeviceByte() { cudaFree(memory_); }
  DeviceByte(const DeviceByte&) = delete;
  DeviceByte& operator=(const DeviceByte&) = delete;
  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

ncclComm_t initialise(const ncclUniqueId& id, NcclPlace place) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  ncclComm_t communicator = nullptr;
  check_nccl(ncclCommInitRankConfig(&communicator, place.size, id, place.position, &config),
             "connect the ranks of a group");
  return communicator;
}

void exchange_byte(ncclComm_t communicator, NcclPlace place, NcclUse use, cudaStream_t stream) {
  const DeviceByte byte;
  ncclResult_t status = ncclSuccess;
  switch (use) {
    case NcclUse::collectives:
      status = ncclAllReduce(byte.get(), byte.get(), 1, ncclUint8, ncclMax, communicator, stream);
      break;
    case NcclUse::messages:
      status = place.position == 0 ? ncclSend(byte.get(), 1, ncclUint8, 1, communicator, stream)
                                   : ncclRecv(byte.get(), 1, ncclUint8, 0, communicator, stream);
      break;
  }
  check_nccl(status, "exchange a first byte");
  // The memory is freed now.
  check_cuda(cudaStreamSynchronize(stream), "exchange a first byte");
}

}  // namespace

ncclComm_t connect_ranks(const ncclUniqueId& id, NcclPlace place, NcclUse use,
                         const std::shared_ptr<CudaStream>& stream, const Communicator& host, double watchdog_seconds) {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "tell the device");
  const auto connection = std::make_shared<Connection>();
  std::thread([=] {
    ncclComm_t communicator = nullptr;
    std::exception_ptr error;
    try {
      // The current device is per thread.
      check_cuda(cudaSetDevice(device), "use the device");
      communicator = initialise(id, place);
      exchange_byte(communicator, place, use, stream->get());
    } catch (const Error&) {
      error = std::current_exception();
    }
    const std::lock_guard lock(connection->mutex);
    if (communicator != nullptr && (error || connection->is_given_up)) ncclCommAbort(communicator);
    connection->communicator = error ? nullptr : communicator;
    connection->error = error;
    connection->has_ended = true;
    connection->changed.notify_all();
  }).detach();

  Deadline deadline(watchdog_seconds);
  std::unique_lock lock(connection->mutex);
  while (!connection->changed.wait_for(lock, between_checks, [&] { return connection->has_ended; })) {
    const bool has_failed = host.failure().has_value();
    if (!has_failed && !deadline.has_passed()) continue;
    // The thread cleans up after itself if NCCL ever releases it.
    connection->is_given_up = true;
    raise_if_failed(host);
    throw Error(ExitCode::rank_lost,
                timeout_message(host.rank(), watchdog_seconds, host.log().activity(),
                                "NCCL, to connect the ranks of a group", "other ranks of a group"));
  }
  if (connection->error) std::rethrow_exception(connection->error);
  return connection->communicator;
}

}  // namespace llmtrain

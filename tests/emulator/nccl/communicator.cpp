// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/nccl/communicator.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/emulator/device/runtime.h"

namespace emulated {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::none:
      return "nothing";
    case Kind::all_reduce:
      return "ncclAllReduce";
    case Kind::all_gather:
      return "ncclAllGather";
    case Kind::reduce_scatter:
      return "ncclReduceScatter";
    case Kind::broadcast:
      return "ncclBroadcast";
  }
  return "";
}

std::string Call::text() const {
  std::string result =
      std::string(name_of(kind)) + " of " + std::to_string(count) + " elements of type " + std::to_string(type);
  if (kind == Kind::broadcast) result += " from rank " + std::to_string(root);
  return result + " as call " + std::to_string(number);
}

namespace {

char* map_shared_memory(const std::string& name, std::size_t bytes) {
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) throw Fault("there is no shared memory");
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (base == MAP_FAILED) throw Fault("there is no shared memory");
  return static_cast<char*>(base);
}

}  // namespace
}  // namespace emulated

using emulated::Fault;

void ncclComm::connect(const std::string& name) {
  const std::size_t head = (sizeof(emulated::Shared) + 63) / 64 * 64;
  const std::size_t slots = static_cast<std::size_t>(size) * emulated::piece_bytes;
  const std::size_t messages = sizeof(emulated::Message) * static_cast<std::size_t>(size * size);
  char* const base = emulated::map_shared_memory(name, head + slots + messages);
  shared = reinterpret_cast<emulated::Shared*>(base);
  slots_ = base + head;
  messages_ = reinterpret_cast<emulated::Message*>(base + head + slots);
  ++shared->joined;
  try {
    wait_until([this] { return shared->joined >= size; }, "ncclCommInitRank");
  } catch (const std::exception&) {
    shm_unlink(name.c_str());
    throw;
  }
  if (rank == 0) shm_unlink(name.c_str());
  state = ncclSuccess;
}

void ncclComm::wait_until(const std::function<bool()>& is_true, const std::string& what) {
  const int seconds = emulated::settings().nccl_seconds;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (int turn = 0; !is_true(); ++turn) {
    if (is_aborted_) throw emulated::Aborted("NCCL's communicator was aborted during " + what);
    if (shared->failed > 0) throw Fault("another rank's communicator has failed during " + what);
    if (std::chrono::steady_clock::now() > until)
      fail(what + ": another rank has not called it within " + std::to_string(seconds) + " s (NCCL would hang)");
    if (turn < 100)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void ncclComm::fail(const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    error_ = what;
  }
  state = ncclInvalidUsage;
  ++shared->failed;
  throw Fault(what);
}

void ncclComm::check_state() const {
  if (state == ncclSuccess) return;
  const std::lock_guard lock(mutex_);
  throw Fault("the communicator has failed: " + error_);
}

void ncclComm::barrier(const std::string& what) {
  const std::uint64_t round = shared->round;
  if (++shared->arrived < size) return wait_until([&] { return shared->round != round; }, what);
  shared->arrived = 0;
  ++shared->round;
}

ncclResult_t ncclComm::usable() const {
  if (is_destroyed_) return ncclInvalidArgument;
  return state == ncclInProgress ? ncclInvalidUsage : ncclSuccess;
}

char* ncclComm::slot(int of_rank) const { return slots_ + static_cast<std::size_t>(of_rank) * emulated::piece_bytes; }

// SPDX-License-Identifier: Apache-2.0
// NCCL's communicator: ranks are threads or processes, and data pass through POSIX shared memory.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>

namespace emulated {

constexpr std::size_t piece_bytes = std::size_t{1} << 18;  // that pass at once
constexpr int most_ranks = 64;

enum class Kind : std::uint8_t { none, all_reduce, all_gather, reduce_scatter, broadcast };
const char* name_of(Kind kind);

// What a rank asks of the others; on all ranks it must be the same.
struct Call {
  Kind kind = Kind::none;
  std::uint64_t number = 0, count = 0;  // the communicator's call of this number; elements that a rank gives or gets
  int type = 0, operation = 0, root = 0;

  std::string text() const;
  bool operator==(const Call&) const = default;
};

// In shared memory, where zeros are the initial values of everything.
struct Shared {
  std::atomic<int> joined{0}, arrived{0}, failed{0};
  std::atomic<std::uint64_t> round{0};
  Call calls[most_ranks];
};

// A piece of a message on its way from one rank to another.
struct Message {
  std::atomic<std::uint64_t> bytes{0};  // 0: there is none
  std::uint64_t whole = 0;              // bytes of the message
  char data[piece_bytes];
};

// ncclCommAbort() was called on this rank; other ranks wait on until it is called there, too.
struct Aborted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// NCCL's kernels end when they see that, and leave whatever they have written: no error of the device.
template <class Work>
void unless_aborted(const Work& work) {
  try {
    work();
  } catch (const Aborted&) {
  }
}

}  // namespace emulated

// Lives as long as the process, because work that is pending refers to it.
struct ncclComm {
 public:
  ncclComm(int ranks, int own_rank, int own_device) : size(ranks), rank(own_rank), device(own_device) {}

  // Meets the other ranks at the name. Throws Fault when they do not come in time.
  void connect(const std::string& name);

  // On streams' threads. They throw Fault, and then every later call on the communicator fails, or Aborted.
  void barrier(const std::string& what);
  void wait_until(const std::function<bool()>& is_true, const std::string& what);
  [[noreturn]] void fail(const std::string& what);
  void check_state() const;

  // Who calls the functions by NCCL's names: ncclSuccess, or what a call on this communicator returns instead.
  ncclResult_t usable() const;
  void abort() { is_aborted_ = is_destroyed_ = true; }
  void destroy() { is_destroyed_ = true; }

  char* slot(int of_rank) const;  // piece_bytes of each rank, for collectives
  emulated::Message& message(int from, int to) const { return messages_[from * size + to]; }

  const int size, rank, device;
  emulated::Shared* shared = nullptr;
  std::uint64_t calls = 0;  // collectives that have run
  std::atomic<ncclResult_t> state{ncclInProgress};

 private:
  emulated::Message* messages_ = nullptr;
  char* slots_ = nullptr;
  std::atomic<bool> is_destroyed_{false}, is_aborted_{false};
  mutable std::mutex mutex_;
  std::string error_;
};

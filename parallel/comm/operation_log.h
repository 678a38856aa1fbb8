// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "parallel/comm/request.h"

namespace llmtrain {

using Clock = std::chrono::steady_clock;

// What one rank has sent for one purpose with one collective.
struct CommunicationCount {
  Purpose purpose = Purpose::control;
  Collective collective = Collective::barrier;
  std::int64_t calls = 0;
  double bytes = 0;           // as Request::ring_bytes()
  double seconds = 0;         // from start to completion, of completed operations
  double waited_seconds = 0;  // the part of it that the rank spent in wait()
};

// One operation, as shown in the report of a hang.
struct OperationRecord {
  enum class State { started, done };
  std::uint64_t number = 0;  // of this rank's operations, from 1
  std::string description;   // "all_reduce of 1024 fp32 for tensor_parallel in group tensor [2 3]"
  State state = State::started;
  double age_seconds = 0;  // since its start
};

// Counts the operations of one rank and remembers the latest. Thread-safe.
class OperationLog {
 public:
  static constexpr std::size_t remembered = 16;

  // What an operation needs to report its end.
  struct Entry {
    std::uint64_t number = 0;
    Purpose purpose = Purpose::control;
    Collective collective = Collective::barrier;
    Clock::time_point started;
  };

  Entry start(const Request& request);
  void finish(const Entry& entry, Clock::time_point when);
  void add_wait(const Entry& entry, double seconds);

  // The counts with at least one call, by purpose, then collective.
  std::vector<CommunicationCount> counts() const;
  void reset_counts();

  // The latest operations, oldest first: at most `remembered`.
  std::vector<OperationRecord> last_operations() const;
  // The latest operation as text: "…, done, started 1.2s ago", or "none".
  std::string last_operation() const;
  // The latest completed operation in which `rank` took part, which shows that the rank was alive until then; or
  // "none".
  std::string last_done_with(int rank) const;

 private:
  struct Remembered {
    Entry entry;
    Request request;
    OperationRecord::State state = OperationRecord::State::started;
  };
  static constexpr std::size_t purposes = 6;
  static constexpr std::size_t collectives = 8;

  CommunicationCount& count_of(const Entry& entry);
  OperationRecord record(std::uint64_t number) const;

  mutable std::mutex mutex_;
  std::uint64_t started_ = 0;
  std::array<Remembered, remembered> last_;
  std::array<CommunicationCount, purposes * collectives> counts_;
};

}  // namespace llmtrain

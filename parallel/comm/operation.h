// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
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

// What connects a rank to a set of others until the run's end: a communicator of MPI, or one of NCCL.
enum class ConnectionKind { mpi, nccl };

// Counts the operations of one rank and remembers the latest, without keeping their groups: these hold what their
// communicators need, communicators hold the log. Thread-safe.
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

  // What the rank does now, which its operations belong to: the step, from 1 (0: none), and in words what it does in
  // it.
  void set_activity(std::int64_t step, std::string what);
  std::int64_t step() const;
  // "step 3, forward stage 1 micro 0"; "" before set_activity().
  std::string activity() const;

  // The counts with at least one call, by purpose, then collective.
  std::vector<CommunicationCount> counts() const;
  void reset_counts();
  // How long this rank's threads have waited for operations since the start.
  double waited_seconds() const;

  void add_connection(ConnectionKind kind);
  // How many of them the rank has made.
  std::int64_t connections(ConnectionKind kind) const;

  // The latest operations, oldest first: at most `remembered`.
  std::vector<OperationRecord> last_operations() const;
  // The latest operation as text: "…, done, started 1.2s ago", or "none"; then ", in " and activity(), if any.
  std::string last_operation() const;
  // The latest completed operation in which `rank` took part, which shows that the rank was alive until then; or
  // "none".
  std::string last_done_with(int rank) const;

 private:
  struct Remembered {
    Entry entry;
    OperationSummary operation;
    OperationRecord::State state = OperationRecord::State::started;
  };
  static constexpr std::size_t purposes = 6;
  static constexpr std::size_t collectives = 8;
  static constexpr std::size_t connection_kinds = 2;

  CommunicationCount& count_of(const Entry& entry);
  OperationRecord record(std::uint64_t number) const;
  std::string activity_text() const;

  mutable std::mutex mutex_;
  std::uint64_t started_ = 0;
  double waited_seconds_ = 0;
  std::int64_t step_ = 0;
  std::string activity_;
  std::array<Remembered, remembered> last_;
  std::array<CommunicationCount, purposes * collectives> counts_;
  std::array<std::int64_t, connection_kinds> connections_{};
};

// One rank's part in an operation in progress; backends derive from it. A waiting thread may execute its work.
class PendingOperation {
 public:
  PendingOperation(std::shared_ptr<OperationLog> log, const OperationLog::Entry& entry)
      : log_(std::move(log)), entry_(entry) {}
  virtual ~PendingOperation() = default;
  PendingOperation(const PendingOperation&) = delete;
  PendingOperation& operator=(const PendingOperation&) = delete;

  // Whether wait() would return or throw immediately. May advance the operation; does not block.
  virtual bool done() = 0;
  // Blocks until the operation is complete; throws Error if it fails or times out.
  virtual void wait() = 0;
  // When this returns, nothing accesses the operation's memory any more, complete or not. Other ranks are not informed.
  virtual void withdraw() noexcept = 0;

  OperationLog& log() const { return *log_; }
  const OperationLog::Entry& entry() const { return entry_; }

 private:
  std::shared_ptr<OperationLog> log_;
  OperationLog::Entry entry_;
};

// The handle of a started operation: the memory belongs to the operation until wait() has returned or thrown. A handle
// that is destroyed without wait() waits itself and only logs errors; while an exception unwinds the stack it withdraws
// the operation instead, because the memory is about to be released.
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::shared_ptr<PendingOperation> operation);
  ~Handle();
  Handle(Handle&& other) noexcept = default;
  Handle& operator=(Handle&& other) noexcept;

  // Whether wait() would return or throw immediately. Does not block, but may transfer data meanwhile.
  bool done() const;
  // Blocks until the results are in place; on a GPU, until they are in place for all work enqueued on the compute
  // stream from now on. Throws Error: rank_lost after launch.watchdog_seconds, or the error given to
  // Communicator::abort(). Returns immediately if called again, and on a handle without an operation.
  void wait();

 private:
  void release() noexcept;

  std::shared_ptr<PendingOperation> operation_;
  int exceptions_ = 0;  // uncaught exceptions when the handle was created
};

}  // namespace llmtrain

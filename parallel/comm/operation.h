// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/comm/operation_log.h"

namespace llmtrain {

// One rank's part in one operation under way; backends derive from it. The thread that waits does the work.
class PendingOperation {
 public:
  PendingOperation(std::shared_ptr<OperationLog> log, const OperationLog::Entry& entry);
  virtual ~PendingOperation();
  PendingOperation(const PendingOperation&) = delete;
  PendingOperation& operator=(const PendingOperation&) = delete;

  // Whether wait() returns, or throws, at once. Moves the operation on.
  virtual bool done() = 0;
  // Returns when it is done; throws Error when it cannot be, or was not in time.
  virtual void wait() = 0;
  // Nobody touches its memory any more, though it may not be done; the other ranks are not told.
  virtual void withdraw() noexcept = 0;

  OperationLog& log() const { return *log_; }
  const OperationLog::Entry& entry() const { return entry_; }

 private:
  std::shared_ptr<OperationLog> log_;
  OperationLog::Entry entry_;
};

// What starting an operation gives: its memory belongs to the operation until wait() has returned or thrown. A handle
// that goes without wait() waits itself, and swallows the error; while an exception unwinds the stack it withdraws the
// operation instead, for the memory goes too.
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::shared_ptr<PendingOperation> operation);
  ~Handle();
  Handle(Handle&& other) noexcept = default;
  Handle& operator=(Handle&& other) noexcept;

  // Whether wait() would return or throw at once. Does not block, but may move data meanwhile.
  bool done() const;
  // Blocks until the results are in place; on a GPU until they are for all that is put on the stream from now on.
  // Throws Error: rank_lost where launch.watchdog_seconds pass, or what Communicator::abort was told. Once done, and
  // on a handle without operation, it returns at once.
  void wait();

 private:
  void release() noexcept;

  std::shared_ptr<PendingOperation> operation_;
  int exceptions_ = 0;  // that were under way where the handle was made
};

}  // namespace llmtrain

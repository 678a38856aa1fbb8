// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/comm/operation_log.h"

namespace llmtrain {

// One rank's part in an operation in progress; backends derive from it. A waiting thread may execute its work.
class PendingOperation {
 public:
  PendingOperation(std::shared_ptr<OperationLog> log, const OperationLog::Entry& entry);
  virtual ~PendingOperation();
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

// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/operation.h"

#include <exception>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"

namespace llmtrain {

PendingOperation::PendingOperation(std::shared_ptr<OperationLog> log, const OperationLog::Entry& entry)
    : log_(std::move(log)), entry_(entry) {}

PendingOperation::~PendingOperation() = default;

Handle::Handle(std::shared_ptr<PendingOperation> operation)
    : operation_(std::move(operation)), exceptions_(std::uncaught_exceptions()) {}

Handle::~Handle() { release(); }

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    release();
    operation_ = std::move(other.operation_);
    exceptions_ = other.exceptions_;
  }
  return *this;
}

bool Handle::done() const { return operation_ == nullptr || operation_->done(); }

void Handle::wait() {
  // Taken out first: the handle is empty afterwards whether wait() returns or throws.
  const std::shared_ptr<PendingOperation> operation = std::move(operation_);
  if (operation == nullptr) return;
  const Clock::time_point start = Clock::now();
  operation->wait();
  operation->log().add_wait(operation->entry(), std::chrono::duration<double>(Clock::now() - start).count());
}

void Handle::release() noexcept {
  if (operation_ == nullptr) return;
  // Unwinding: other ranks may never start their part, so waiting could hang until the watchdog fires.
  if (std::uncaught_exceptions() > exceptions_) {
    operation_->withdraw();
    operation_.reset();
    return;
  }
  try {
    wait();
  } catch (const std::exception& error) {
    log().debug("an operation without a waiting thread failed: {}", error.what());
  }
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/operation.h"

#include <exception>
#include <utility>

#include "core/base/elapsed_time.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/units.h"

namespace llmtrain {

OperationLog::Entry OperationLog::start(const Request& request) {
  const std::lock_guard lock(mutex_);
  const Entry entry{++started_, request.purpose, request.collective, Clock::now()};
  // A ring buffer: a hang report needs only the latest operations, and memory must not grow with the run.
  last_[entry.number % remembered] = {entry, request.summary(), OperationRecord::State::started};
  CommunicationCount& count = count_of(entry);
  ++count.calls;
  // Counted at the start, so that operations that never finish are visible too.
  count.bytes += request.ring_bytes();
  return entry;
}

void OperationLog::finish(const Entry& entry, Clock::time_point when) {
  const std::lock_guard lock(mutex_);
  count_of(entry).seconds += seconds_between(entry.started, when);
  Remembered& slot = last_[entry.number % remembered];
  // The ring buffer may have reused the slot for a later operation.
  if (slot.entry.number == entry.number) slot.state = OperationRecord::State::done;
}

void OperationLog::add_wait(const Entry& entry, double seconds) {
  const std::lock_guard lock(mutex_);
  count_of(entry).waited_seconds += seconds;
  waited_seconds_ += seconds;
}

double OperationLog::waited_seconds() const {
  const std::lock_guard lock(mutex_);
  return waited_seconds_;
}

CommunicationCount& OperationLog::count_of(const Entry& entry) {
  return counts_[static_cast<std::size_t>(entry.purpose) * collectives + static_cast<std::size_t>(entry.collective)];
}

std::vector<CommunicationCount> OperationLog::counts() const {
  const std::lock_guard lock(mutex_);
  std::vector<CommunicationCount> result;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i].calls == 0) continue;
    result.push_back(counts_[i]);
    result.back().purpose = static_cast<Purpose>(i / collectives);
    result.back().collective = static_cast<Collective>(i % collectives);
  }
  return result;
}

void OperationLog::reset_counts() {
  const std::lock_guard lock(mutex_);
  counts_ = {};
}

void OperationLog::add_connection(ConnectionKind kind) {
  const std::lock_guard lock(mutex_);
  ++connections_[static_cast<std::size_t>(kind)];
}

std::int64_t OperationLog::connections(ConnectionKind kind) const {
  const std::lock_guard lock(mutex_);
  return connections_[static_cast<std::size_t>(kind)];
}

OperationRecord OperationLog::record(std::uint64_t number) const {
  const Remembered& slot = last_[number % remembered];
  return {number, slot.operation.description(), slot.state, seconds_between(slot.entry.started, Clock::now())};
}

std::vector<OperationRecord> OperationLog::last_operations() const {
  const std::lock_guard lock(mutex_);
  std::vector<OperationRecord> result;
  const std::uint64_t first = started_ < remembered ? 1 : started_ - remembered + 1;
  for (std::uint64_t number = first; number <= started_; ++number) result.push_back(record(number));
  return result;
}

void OperationLog::set_activity(std::int64_t step, std::string what) {
  const std::lock_guard lock(mutex_);
  step_ = step;
  activity_ = std::move(what);
}

std::int64_t OperationLog::step() const {
  const std::lock_guard lock(mutex_);
  return step_;
}

std::string OperationLog::activity() const {
  const std::lock_guard lock(mutex_);
  return activity_text();
}

std::string OperationLog::activity_text() const {
  if (step_ == 0 || activity_.empty()) return activity_;
  return "step " + std::to_string(step_) + ", " + activity_;
}

std::string OperationLog::last_operation() const {
  const std::lock_guard lock(mutex_);
  const std::string activity = activity_.empty() ? "" : ", in " + activity_text();
  if (started_ == 0) return "none" + activity;
  const OperationRecord last = record(started_);
  return last.description + (last.state == OperationRecord::State::done ? ", done" : ", not done") + ", started " +
         format_duration(last.age_seconds) + " ago" + activity;
}

std::string OperationLog::last_done_with(int rank) const {
  const std::lock_guard lock(mutex_);
  for (std::uint64_t number = started_; number > 0 && number + remembered > started_; --number) {
    const Remembered& slot = last_[number % remembered];
    if (slot.state == OperationRecord::State::done && slot.operation.involves(rank))
      return slot.operation.description();
  }
  return "none";
}

Handle::Handle(std::shared_ptr<PendingOperation> operation)
    // Their number rather than whether there is one: a handle made by a destructor during unwinding is destroyed
    // normally.
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
  operation->log().add_wait(operation->entry(), seconds_between(start, Clock::now()));
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

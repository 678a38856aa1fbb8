// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/operation_log.h"

#include <algorithm>

#include "core/base/units.h"

namespace llmtrain {
namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Whether completing the operation proves that `rank` was alive.
bool involves(const Request& request, int rank) {
  const std::vector<int>& ranks = request.group.ranks();
  const bool is_message = request.collective == Collective::send || request.collective == Collective::receive;
  if (is_message) return ranks[static_cast<std::size_t>(request.peer)] == rank;
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

OperationLog::Entry OperationLog::start(const Request& request) {
  const std::lock_guard lock(mutex_);
  const Entry entry{++started_, request.purpose, request.collective, Clock::now()};
  // A ring buffer: a hang report needs only the latest operations, and memory must not grow with the run.
  last_[entry.number % remembered] = {entry, request, OperationRecord::State::started};
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

OperationRecord OperationLog::record(std::uint64_t number) const {
  const Remembered& slot = last_[number % remembered];
  return {number, slot.request.description(), slot.state, seconds_between(slot.entry.started, Clock::now())};
}

std::vector<OperationRecord> OperationLog::last_operations() const {
  const std::lock_guard lock(mutex_);
  std::vector<OperationRecord> result;
  const std::uint64_t first = started_ < remembered ? 1 : started_ - remembered + 1;
  for (std::uint64_t number = first; number <= started_; ++number) result.push_back(record(number));
  return result;
}

std::string OperationLog::last_operation() const {
  const std::lock_guard lock(mutex_);
  if (started_ == 0) return "none";
  const OperationRecord last = record(started_);
  return last.description + (last.state == OperationRecord::State::done ? ", done" : ", not done") + ", started " +
         format_duration(last.age_seconds) + " ago";
}

std::string OperationLog::last_done_with(int rank) const {
  const std::lock_guard lock(mutex_);
  for (std::uint64_t number = started_; number > 0 && number + remembered > started_; --number) {
    const Remembered& slot = last_[number % remembered];
    if (slot.state == OperationRecord::State::done && involves(slot.request, rank)) return slot.request.description();
  }
  return "none";
}

}  // namespace llmtrain

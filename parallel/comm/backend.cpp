// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/backend.h"

#include "core/base/error.h"
#include "core/base/units.h"
#include "parallel/comm/running_time.h"

namespace llmtrain {
namespace {

[[noreturn]] void raise_failure(const Failure& failure, int rank) {
  const std::string name = "rank " + std::to_string(failure.rank);
  // The own rank needs no prefix, and a message that already starts with the rank's name does not get a second one.
  const bool is_reported = failure.rank == rank || failure.message.starts_with(name + " ");
  throw Error(failure.code, is_reported ? failure.message : name + ": " + failure.message);
}

// A world of one rank: all groups have one member, so no operation has to wait for another rank.
class SoloCommunicator final : public Communicator {
 public:
  SoloCommunicator() : Communicator(0, 1) { set_world(make_group("world", {0})); }

  void abort(ExitCode code, const std::string& message) override { failure_.set({rank(), code, message}); }
  std::optional<Failure> failure() const override { return failure_.get(); }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int position,
                                           GroupUse) override {
    return std::make_shared<Group::State>(name, std::move(ranks), position);
  }
  // Collectives of one rank complete without a backend: only messages get here.
  std::shared_ptr<PendingOperation> start(Request request) override {
    if (failure_.is_set()) failure_.raise(rank());
    throw Error(ExitCode::internal_error, request.description() + ": there is no other rank");
  }

  FailureNote failure_;
};

}  // namespace

std::shared_ptr<Communicator> make_solo_communicator() { return std::make_shared<SoloCommunicator>(); }

bool FailureNote::set(Failure failure) {
  const std::lock_guard lock(mutex_);
  if (failure_) return false;
  failure_ = std::move(failure);
  // Published after failure_ is written: whoever sees the flag finds the failure.
  is_set_.store(true, std::memory_order_release);
  return true;
}

std::optional<Failure> FailureNote::get() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void FailureNote::raise(int rank) const { raise_failure(get().value(), rank); }

void raise_if_failed(const Communicator& communicator) {
  if (const std::optional<Failure> failure = communicator.failure()) raise_failure(*failure, communicator.rank());
}

Clock::duration Deadline::left() {
  const Clock::duration now = running_time();
  Clock::rep asked = never;
  // The time runs from the first wait, not from the start: an operation that is started early, to overlap with
  // computation, may be open for long without delaying anyone.
  if (first_asked_.compare_exchange_strong(asked, now.count())) asked = now.count();
  const std::chrono::duration<double> patience(seconds_);
  return std::chrono::duration_cast<Clock::duration>(patience) - (now - Clock::duration(asked));
}

std::string timeout_message(int rank, double seconds, const std::string& activity, const std::string& operation,
                            const std::string& missing) {
  return "rank " + std::to_string(rank) + " waited " + format_duration(seconds) +
         (activity.empty() ? "" : " in " + activity + ",") + " in " + operation + " for " + missing +
         ": it hangs or is lost; see its log, or raise launch.watchdog_seconds if it is only slow";
}

}  // namespace llmtrain

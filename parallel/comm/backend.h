// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "parallel/comm/communicator.h"

// What several backends use: failures, the watchdog's time, and communicators above others.
namespace llmtrain {

// Stores the first failure. Thread-safe; is_set() costs one atomic load.
class FailureNote {
 public:
  // Returns whether this was the first failure; later ones are dropped.
  bool set(Failure failure);
  bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  std::optional<Failure> get() const;
  // Throws Error with the failure's code and message, prefixed with the failed rank's name unless that is `rank`; a
  // failure must be set.
  [[noreturn]] void raise(int rank) const;

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> is_set_{false};
  std::optional<Failure> failure_;
};

// Throws the failure that ended the ranks, like FailureNote::raise(), if `communicator` knows of one.
void raise_if_failed(const Communicator& communicator);

// The watchdog's time for one operation, in which this process was running: what goes on while it is halted says
// nothing of the others. It starts when a thread first asks, to wait or to poll: an operation may stay open during long
// computations. Thread-safe.
class Deadline {
 public:
  explicit Deadline(double watchdog_seconds) : seconds_(watchdog_seconds) {}
  // What is left of it. Nobody needs to ask again earlier; zero or less: it has passed.
  Clock::duration left();
  bool has_passed() { return left() <= Clock::duration::zero(); }

 private:
  static constexpr Clock::rep never = -1;
  const double seconds_;
  std::atomic<Clock::rep> first_asked_{never};
};

// The message of a watchdog's error. `activity` is the rank's OperationLog::activity(), `operation` is
// Request::description(), `missing` "rank 3 (last operation: …)".
std::string timeout_message(int rank, double seconds, const std::string& activity, const std::string& operation,
                            const std::string& missing);

// A layer's group, with the same group of the host below it.
struct LayerGroup : Group::State {
  explicit LayerGroup(Group given)
      : State(given.members()->name, given.ranks(), given.position()), host(std::move(given)) {}
  const Group host;
};

// A communicator that executes some operations itself and passes the others on to a communicator of the same rank, its
// host, which also handles failures. Both share one log.
class LayeredCommunicator : public Communicator {
 public:
  void abort(ExitCode code, const std::string& message) override { host_->abort(code, message); }
  std::optional<Failure> failure() const override { return host_->failure(); }

 protected:
  explicit LayeredCommunicator(std::shared_ptr<Communicator> host)
      : Communicator(host->rank(), host->size(), host->shared_log()), host_(std::move(host)) {}

  const std::shared_ptr<Communicator>& host() const { return host_; }
  // The request with the host's group.
  static Request host_request(Request request) {
    request.group = static_cast<LayerGroup&>(request.group.state()).host;
    return request;
  }

 private:
  void issue_together(const std::function<void()>& start) override { host_->together(start); }

  std::shared_ptr<Communicator> host_;
};

}  // namespace llmtrain

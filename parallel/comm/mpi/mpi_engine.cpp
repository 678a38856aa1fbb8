// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_engine.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"

namespace llmtrain {
namespace {

using namespace std::chrono_literals;

// How long a waiting rank only yields its core after the last progress; after that it sleeps between polls. Yielding
// first answers small messages at once and still gives the core to a rank that shares it; a long wait, as for the rest
// of another stage's pass, should not take time from computation.
constexpr auto yielding = 5ms;
constexpr auto short_sleep = 50us;
// How long the engine's own thread sleeps between polls: while messages progress, otherwise, and when nothing has been
// in flight for a while, so that only the control channel needs attention. Longer sleeps leave the core to the rank's
// computation.
constexpr std::chrono::microseconds busy_sleep = 100us;
constexpr std::chrono::microseconds helper_sleep = 500us;
constexpr std::chrono::microseconds resting_sleep = 20ms;
constexpr auto resting_after = 200ms;
// How long to wait for ranks to answer a question, and for a failure to be sent to them.
constexpr auto answer_time = 1s;

// Counts the threads in wait() by scope.
class CountUp {
 public:
  explicit CountUp(std::atomic<int>& count) : count_(count) { ++count_; }
  ~CountUp() { --count_; }
  CountUp(const CountUp&) = delete;
  CountUp& operator=(const CountUp&) = delete;

 private:
  std::atomic<int>& count_;
};

}  // namespace

MpiEngine::MpiEngine(int rank, int size, const MpiOptions& options, std::shared_ptr<OperationLog> log)
    : rank_(rank), options_(options), log_(std::move(log)), control_(rank, size, failure_, *log_), helper_([this] {
        look_after();
      }) {}

MpiEngine::~MpiEngine() { stop(); }

void MpiEngine::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (has_stopped_) return;
    has_stopped_ = true;
  }
  changed_.notify_all();
  helper_.join();
  // Closing calls MPI, which would advance messages whose memory is gone.
  if (!is_frozen()) control_.close();
}

void MpiEngine::start(const std::shared_ptr<MpiOperation>& operation, const MakeSteps& make_steps) {
  const std::lock_guard lock(mutex_);
  ++changes_;
  // Under the mutex, since making steps posts messages, and two threads may not call MPI at once.
  operation->steps_ = make_steps();
  // Small operations often complete within their first poll.
  if (!advance(*operation)) open_.push_back(operation);
}

bool MpiEngine::advance(MpiOperation& operation) {
  if (!operation.steps_->advance()) return false;
  // Frees receive buffers early: a handle may live on long after its operation.
  operation.steps_.reset();
  operation.log().finish(operation.entry(), Clock::now());
  // Publishes the results to threads that wait without the mutex.
  operation.is_done_.store(true, std::memory_order_release);
  ++changes_;
  return true;
}

void MpiEngine::progress() {
  if (is_frozen()) return;
  try {
    control_.progress();
    // After a failure only control messages proceed: the threads that wait withdraw their operations.
    if (failure_.is_set()) return;
    open_.remove_if([this](const std::shared_ptr<MpiOperation>& operation) { return advance(*operation); });
  } catch (const Error& error) {
    // Only the first failure is sent: the others would arrive as its consequences. It is noted and not thrown: the
    // thread that polls may wait for another operation, or be the engine's own.
    if (failure_.set({rank_, error.code(), error.what()})) control_.report_failure(*failure_.get());
  }
}

void MpiEngine::look_after() {
  std::uint64_t changes = 0;
  Clock::time_point last_change = Clock::now();
  std::unique_lock lock(mutex_);
  while (!has_stopped_) {
    // A waiting thread polls more often than this one would.
    if (waiting_.load() == 0) progress();
    if (changes_ != changes) last_change = Clock::now();
    changes = changes_;
    // Starting an operation does not wake this thread: if the rank waits right away, the two would only compete for a
    // core.
    const bool is_busy = !open_.empty() && waiting_.load() == 0 && Clock::now() - last_change < yielding;
    const bool is_resting = open_.empty() && Clock::now() - last_change > resting_after;
    changed_.wait_for(lock, is_busy ? busy_sleep : is_resting ? resting_sleep : helper_sleep);
  }
}

bool MpiEngine::is_done(MpiOperation& operation) {
  if (operation.is_done_.load(std::memory_order_acquire) || failure_.is_set() || is_frozen()) return true;
  in_mpi([this] { progress(); });
  return operation.is_done_.load(std::memory_order_acquire) || failure_.is_set() || operation.deadline_.has_passed();
}

void MpiEngine::wait(MpiOperation& operation) {
  const CountUp waiting(waiting_);
  // Starts the watchdog's time.
  Clock::time_point until = Clock::now() + operation.deadline_.left();
  std::uint64_t changes = 0;
  Clock::time_point last_change = Clock::now();
  // Acquires what advance() has released: results may have been written by another thread's calls of MPI.
  while (!operation.is_done_.load(std::memory_order_acquire)) {
    if (failure_.is_set() || is_frozen()) {
      withdraw(operation);
      raise_if_failed();
    }
    in_mpi([&] {
      progress();
      if (std::exchange(changes, changes_) != changes_) last_change = Clock::now();
    });
    if (operation.is_done_.load(std::memory_order_acquire)) return;
    const Clock::time_point now = Clock::now();
    // The watchdog acts only in waiting threads: an operation that nobody waits for delays nobody.
    if (now >= until) {
      const Clock::duration left = operation.deadline_.left();
      if (left <= Clock::duration::zero()) time_out(operation);
      until = now + left;
    }
    if (now - last_change < yielding) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(short_sleep);
    }
  }
}

void MpiEngine::time_out(MpiOperation& operation) {
  std::vector<int> missing;
  in_mpi([&] {
    if (operation.steps_ == nullptr) return;
    for (const int position : operation.steps_->open_peers())
      missing.push_back(operation.request_.group.rank_at(position));
  });
  // The missing ranks are asked before the failure is set, which ends those that could answer.
  fail({rank_, ExitCode::rank_lost,
        timeout_message(rank_, options_.watchdog_seconds, log_->activity(), operation.request_.description(),
                        describe_ranks(missing))});
  withdraw(operation);
  failure_.raise(rank_);
}

void MpiEngine::await_control(const std::function<bool()>& is_done) {
  const Clock::time_point until = Clock::now() + answer_time;
  bool is_waiting = true;
  while (is_waiting) {
    in_mpi([&] {
      if (!is_frozen()) control_.progress();
      is_waiting = !is_done() && Clock::now() < until;
    });
    std::this_thread::sleep_for(short_sleep);
  }
}

std::string MpiEngine::describe_ranks(const std::vector<int>& ranks) {
  if (ranks.empty()) return "its completion";
  in_mpi([&] {
    // The engine's thread of a rank answers even while its computation hangs: silence means that the process is gone or
    // stopped.
    for (const int rank : ranks) control_.ask(rank);
  });
  await_control(
      [&] { return std::ranges::all_of(ranks, [&](int rank) { return control_.answers().contains(rank); }); });
  std::string text;
  in_mpi([&] {
    for (const int rank : ranks) {
      const auto answer = control_.answers().find(rank);
      text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank) +
              (answer == control_.answers().end()
                   ? " (does not respond; last operation completed with it: " + log_->last_done_with(rank) + ")"
                   : " (last operation: " + answer->second + ")");
    }
  });
  return text;
}

void MpiEngine::fail(const Failure& failure) {
  if (!failure_.set(failure)) return;
  try {
    in_mpi([&] { control_.report_failure(failure); });
    // The process is about to end, and MPI sends only within its calls: without this wait the notes might never leave.
    if (!is_frozen()) await_control([this] { return is_frozen() || !control_.is_sending(); });
  } catch (const Error& error) {
    log().debug("a failure could not be reported to the other ranks: {}", error.what());
  }
}

void MpiEngine::raise_if_failed() const {
  if (failure_.is_set()) failure_.raise(rank_);
  if (is_frozen())
    throw Error(ExitCode::internal_error,
                "an exception has interrupted operations in progress: abort, and end the process");
}

void MpiEngine::withdraw(MpiOperation& operation) noexcept {
  const std::lock_guard lock(mutex_);
  // The steps and their buffers stay alive, because MPI may still write to them.
  if (operation.steps_ != nullptr) is_frozen_ = true;
}

}  // namespace llmtrain

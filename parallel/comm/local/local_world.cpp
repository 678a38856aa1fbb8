// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/local/local_world.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "parallel/comm/backend.h"
#include "parallel/comm/local/local_exchange.h"
#include "parallel/comm/local/local_shared.h"

namespace llmtrain {
namespace {

struct LocalGroup : Group::State {
  using State::State;
  std::shared_ptr<LocalMeeting> meeting;
  std::uint64_t started = 0;  // number of collectives that this rank has started
};

// An exchange and this rank's member index in it.
struct Place {
  std::shared_ptr<LocalExchange> exchange;
  int member = 0;
};

// Matches messages by counting on both sides: the n-th sent is the n-th received. Called under the meeting's mutex.
Place find_message(LocalShared& shared, LocalGroup& group, const Request& request) {
  const bool is_sender = request.collective == Collective::send;
  const std::pair positions =
      is_sender ? std::pair{group.position, request.peer} : std::pair{request.peer, group.position};
  LocalMeeting::Line& line = group.meeting->lines[positions];
  const std::uint64_t number = is_sender ? line.sent++ : line.received++;
  const int member = is_sender ? 0 : 1;
  if (const auto entry = line.open.find(number); entry != line.open.end()) {
    std::shared_ptr<LocalExchange> exchange = entry->second.lock();
    line.open.erase(entry);
    // Expired: the other side gave its operation up. This side waits until a failure or the watchdog ends it.
    if (exchange != nullptr) return {std::move(exchange), member};
  }
  const std::vector<int> ranks{group.ranks()[static_cast<std::size_t>(positions.first)],
                               group.ranks()[static_cast<std::size_t>(positions.second)]};
  auto exchange = std::make_shared<LocalExchange>(shared, ranks);
  line.open[number] = exchange;
  return {std::move(exchange), member};
}

Place find_collective(LocalShared& shared, LocalGroup& group) {
  // All members start the same collectives in the same order, so the count identifies the exchange.
  std::weak_ptr<LocalExchange>& entry = group.meeting->collectives[group.started++];
  std::shared_ptr<LocalExchange> exchange = entry.lock();
  if (exchange == nullptr) exchange = std::make_shared<LocalExchange>(shared, group.ranks());
  entry = exchange;
  return {std::move(exchange), group.position};
}

class LocalOperation : public PendingOperation {
 public:
  LocalOperation(std::shared_ptr<LocalShared> shared, int rank, Request request, Place place,
                 std::shared_ptr<OperationLog> log, const OperationLog::Entry& entry)
      : PendingOperation(std::move(log), entry),
        shared_(std::move(shared)),
        rank_(rank),
        request_(std::move(request)),
        place_(std::move(place)),
        deadline_(shared_->watchdog_seconds()) {}

  bool done() override {
    if (shared_->failure().is_set()) return true;
    exchange().help();
    if (exchange().is_done()) return Clock::now() >= exchange().finish_time(place_.member);
    return deadline_.has_passed();
  }

  void wait() override {
    Doorbell& bell = shared_->bell(rank_);
    while (!exchange().is_done()) {
      exchange().help();
      const bool has_news = bell.wait_until(Clock::now() + deadline_.left(), [this] {
        return shared_->failure().is_set() || exchange().is_done() || exchange().has_work();
      });
      // What has completed keeps its results, whatever has failed since.
      if (shared_->failure().is_set() && !exchange().is_done()) raise();
      if (!has_news && deadline_.has_passed()) time_out();
    }
    const bool has_failed =
        bell.wait_until(exchange().finish_time(place_.member), [this] { return shared_->failure().is_set(); });
    if (has_failed) raise();
  }

  void withdraw() noexcept override { exchange().withdraw(); }

 private:
  LocalExchange& exchange() const { return *place_.exchange; }

  [[noreturn]] void raise() {
    withdraw();
    shared_->failure().raise(rank_);
  }

  [[noreturn]] void time_out() {
    std::vector<int> missing = exchange().missing();
    // All have joined, so one of the others is stuck in the middle of a piece.
    if (missing.empty()) {
      missing = request_.group.ranks();
      std::erase(missing, rank_);
    }
    shared_->fail({rank_, ExitCode::rank_lost,
                   timeout_message(rank_, shared_->watchdog_seconds(), log().activity(), request_.description(),
                                   shared_->describe_ranks(missing))});
    raise();
  }

  std::shared_ptr<LocalShared> shared_;
  int rank_;
  Request request_;
  Place place_;
  Deadline deadline_;
};

// One rank of a LocalWorld.
class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<LocalShared> shared, int rank)
      : Communicator(rank, shared->size()), shared_(std::move(shared)) {
    shared_->set_log(rank, shared_log());
    std::vector<int> all(static_cast<std::size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    set_world(make_group("world", all));
  }

  void abort(ExitCode code, const std::string& message) override { shared_->fail({rank(), code, message}); }
  std::optional<Failure> failure() const override { return shared_->failure().get(); }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int position,
                                           GroupUse) override {
    auto group = std::make_shared<LocalGroup>(name, std::move(ranks), position);
    group->meeting = shared_->meeting(rank(), name, group->ranks());
    return group;
  }

  std::shared_ptr<PendingOperation> start(Request request) override {
    request.require_host_memory();
    if (shared_->failure().is_set()) shared_->failure().raise(rank());
    auto& group = static_cast<LocalGroup&>(request.group.state());
    const OperationLog::Entry entry = shared_log()->start(request);
    Place place;
    {
      const std::lock_guard lock(group.meeting->mutex);
      place = request.is_message() ? find_message(*shared_, group, request) : find_collective(*shared_, group);
    }
    // The last member removes the exchange from the map; handles keep it alive.
    const std::uint64_t number = group.started - 1;
    // Without the mutex, because the last member may carry out the whole operation in join().
    if (place.exchange->join(place.member, request, shared_log(), entry) && !request.is_message()) {
      const std::lock_guard lock(group.meeting->mutex);
      group.meeting->collectives.erase(number);
    }
    return std::make_shared<LocalOperation>(shared_, rank(), std::move(request), std::move(place), shared_log(), entry);
  }

  std::shared_ptr<LocalShared> shared_;
};

// The ranks' threads from their start to their end.
class RankThreads {
 public:
  explicit RankThreads(int ranks) : has_ended_(static_cast<std::size_t>(ranks)) { failures_.resize(has_ended_.size()); }

  // On the rank's own thread, before it ends; `failure`: of a rank that threw.
  void end(int rank, std::exception_ptr failure) {
    {
      const std::lock_guard lock(mutex_);
      has_ended_[static_cast<std::size_t>(rank)] = true;
      failures_[static_cast<std::size_t>(rank)] = std::move(failure);
    }
    changed_.notify_all();
  }

  // Blocks until all ranks have ended, or for `patience_seconds` after one has failed. Returns those that have not.
  std::vector<int> wait(double patience_seconds) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return running().empty() || has_failure(); });
    changed_.wait_for(lock, std::chrono::duration<double>(patience_seconds), [this] { return running().empty(); });
    return running();
  }

  // What ended a rank; null if it did not throw. The rank must have ended.
  std::exception_ptr failure_of(int rank) {
    const std::lock_guard lock(mutex_);
    return failures_[static_cast<std::size_t>(rank)];
  }

 private:
  std::vector<int> running() const {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < has_ended_.size(); ++rank)
      if (!has_ended_[rank]) ranks.push_back(static_cast<int>(rank));
    return ranks;
  }

  bool has_failure() const {
    return std::ranges::any_of(failures_, [](const std::exception_ptr& failure) { return failure != nullptr; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> has_ended_;
  std::vector<std::exception_ptr> failures_;  // by rank
};

void give_up(const LocalOptions& options, const std::vector<int>& running, const Failure& failure) {
  if (!options.abandon || running.empty()) return;
  std::string names;
  for (const int rank : running) names += (names.empty() ? "rank " : ", rank ") + std::to_string(rank);
  options.abandon(Error(failure.code, failure.message + "; " + names + " did not end on its own"));
}

}  // namespace

LocalWorld::LocalWorld(int ranks, const LocalOptions& options)
    : options_(options), shared_(std::make_shared<LocalShared>(ranks, options)) {}

std::unique_ptr<Communicator> LocalWorld::communicator(int rank) {
  return std::make_unique<LocalCommunicator>(shared_, rank);
}

void LocalWorld::run(const std::function<void(Communicator&)>& work) {
  RankThreads ranks(shared_->size());
  const auto run_rank = [&](int rank) {
    const std::unique_ptr<Communicator> own = communicator(rank);
    std::exception_ptr failure;
    try {
      work(*own);
    } catch (const Error& error) {
      failure = std::current_exception();
      // Wakes the other ranks, which would wait for this one until the watchdog fires.
      own->abort(error.code(), error.what());
    } catch (const std::exception& error) {
      failure = std::current_exception();
      own->abort(ExitCode::internal_error, error.what());
    }
    ranks.end(rank, std::move(failure));
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shared_->size(); ++rank) threads.emplace_back(run_rank, rank);
  const std::vector<int> running = ranks.wait(options_.patience_seconds);
  const std::optional<Failure> failure = shared_->failure().get();
  if (failure) give_up(options_, running, *failure);
  for (std::thread& thread : threads) thread.join();
  if (!failure) return;
  // The others only repeat what the first rank to fail has said, and may have ended before it.
  if (const std::exception_ptr own = ranks.failure_of(failure->rank)) std::rethrow_exception(own);
  for (int rank = 0; rank < shared_->size(); ++rank)
    if (const std::exception_ptr repeated = ranks.failure_of(rank)) std::rethrow_exception(repeated);
}

}  // namespace llmtrain

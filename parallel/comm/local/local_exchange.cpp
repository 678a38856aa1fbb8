// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/local/local_exchange.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace llmtrain {
namespace {

// Below this size the last rank to join finishes before another one would have woken up.
constexpr std::int64_t small_bytes = 1 << 16;

}  // namespace

LocalExchange::LocalExchange(LocalShared& shared, std::vector<int> ranks)
    : shared_(shared),
      ranks_(std::move(ranks)),
      members_(ranks_.size()),
      requests_(ranks_.size()),
      finish_(ranks_.size()) {}

bool LocalExchange::join(int member, const Request& request, const std::shared_ptr<OperationLog>& log,
                         const OperationLog::Entry& entry) {
  const auto index = static_cast<std::size_t>(member);
  {
    const std::lock_guard lock(mutex_);
    requests_[index] = request;
    members_[index] = {true, log, entry};
    if (++joined_ < ranks_.size()) return false;
  }
  // Only the last member gets here, after all others have joined, so the requests need no lock any more.
  const std::string problem = mismatch(requests_);
  if (!problem.empty()) {
    shared_.fail({ranks_[index], ExitCode::internal_error, problem});
    throw Error(ExitCode::internal_error, problem);
  }
  prepare();
  return true;
}

void LocalExchange::prepare() {
  pieces_ = split_into_pieces(requests_);
  // Before ready_: others may complete() the exchange as soon as they see it.
  plan_finish(Clock::now());
  ready_.store(true, std::memory_order_release);
  // Barriers and empty tensors have nothing to copy.
  if (pieces_.empty()) {
    complete();
  } else if (requests_.front().total_count() * element_size(requests_.front().type) <= small_bytes) {
    help();
  } else {
    shared_.ring(ranks_);
  }
}

void LocalExchange::plan_finish(Clock::time_point now) {
  LinkModel& links = shared_.links();
  const Request& first = requests_.front();
  if (links.is_off()) {
    std::fill(finish_.begin(), finish_.end(), now);
  } else if (first.collective == Collective::send) {
    const LinkModel::Passage passage = links.message(ranks_[0], first.ring_bytes(), members_[0].entry.started);
    finish_ = {passage.left, passage.arrived};
  } else {
    std::fill(finish_.begin(), finish_.end(), links.collective(requests_, now));
  }
}

bool LocalExchange::has_work() const {
  return ready_.load(std::memory_order_acquire) && !withdrawn_.load() && taken_.load() < pieces_.size();
}

void LocalExchange::help() {
  while (has_work()) {
    // Announce, then check; withdraw() sets its flag, then reads helpers_. With sequentially consistent atomics either
    // this thread sees the flag or withdraw() sees the helper and waits for it.
    helpers_.fetch_add(1);
    if (withdrawn_.load()) {
      helpers_.fetch_sub(1);
      return;
    }
    const std::size_t piece = taken_.fetch_add(1);
    if (piece < pieces_.size()) do_piece(requests_, pieces_[piece]);
    helpers_.fetch_sub(1);
    // Exactly one helper finishes the last piece and completes the exchange for all.
    if (piece < pieces_.size() && finished_.fetch_add(1) + 1 == pieces_.size()) complete();
  }
}

void LocalExchange::complete() {
  const Clock::time_point now = Clock::now();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    // The emulated network cannot deliver before the data have been copied.
    finish_[i] = std::max(finish_[i], now);
    members_[i].log->finish(members_[i].entry, finish_[i]);
  }
  // Publishes results and finish times to members that see done_.
  done_.store(true, std::memory_order_release);
  shared_.ring(ranks_);
}

void LocalExchange::withdraw() noexcept {
  // Helpers finish at most the piece that they are in, so the loop is short.
  withdrawn_.store(true);
  while (helpers_.load() > 0) std::this_thread::yield();
}

std::vector<int> LocalExchange::missing() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> result;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (!members_[i].has_joined) result.push_back(ranks_[i]);
  }
  return result;
}

}  // namespace llmtrain

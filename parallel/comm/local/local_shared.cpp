// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/local/local_shared.h"

namespace llmtrain {

LocalShared::LocalShared(int ranks, const LocalOptions& options)
    : options_(options),
      links_(ranks, options.links),
      bells_(static_cast<std::size_t>(ranks)),
      logs_(static_cast<std::size_t>(ranks)) {}

void LocalShared::ring(const std::vector<int>& ranks) {
  for (const int rank : ranks) bell(rank).ring();
}

void LocalShared::fail(Failure failure) {
  // Later failures are consequences of the first one, whose ring has already woken everyone.
  if (!failure_.set(std::move(failure))) return;
  for (Doorbell& bell : bells_) bell.ring();
}

void LocalShared::set_log(int rank, std::shared_ptr<OperationLog> log) {
  const std::lock_guard lock(mutex_);
  logs_[static_cast<std::size_t>(rank)] = std::move(log);
}

std::string LocalShared::describe_ranks(const std::vector<int>& ranks) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const int rank : ranks) {
    const std::shared_ptr<OperationLog>& log = logs_[static_cast<std::size_t>(rank)];
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank) +
            " (last operation: " + (log ? log->last_operation() : "none") + ")";
  }
  return text;
}

std::shared_ptr<LocalMeeting> LocalShared::meeting(int rank, const std::string& name, const std::vector<int>& ranks) {
  const std::lock_guard lock(mutex_);
  const GroupKey key{name, ranks};
  // The same group may be created repeatedly; the count distinguishes its instances.
  const std::pair place{key, made_[{key, rank}]++};
  std::shared_ptr<LocalMeeting>& entry = meetings_[place];
  if (entry == nullptr) entry = std::make_shared<LocalMeeting>();
  const std::shared_ptr<LocalMeeting> result = entry;
  // The last member has come: the next group of this name is a new one.
  if (++result->members == ranks.size()) meetings_.erase(place);
  return result;
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/failure.h"
#include "parallel/comm/local/doorbell.h"
#include "parallel/comm/local/link_model.h"
#include "parallel/comm/local/local_world.h"

namespace llmtrain {

class LocalExchange;

// What the members of a group share: the operations that not all of them have started yet. The operations' handles
// keep them: one that was given up by all is gone.
struct LocalMeeting {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<LocalExchange>> collectives;  // by number
  struct Line {  // messages from one position to another: how many each side has started, and the open ones
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::map<std::uint64_t, std::weak_ptr<LocalExchange>> open;
  };
  std::map<std::pair<int, int>, Line> lines;
  std::size_t members = 0;  // that have made the group
};

// What the ranks of one LocalWorld share.
class LocalShared {
 public:
  LocalShared(int ranks, const LocalOptions& options);
  ~LocalShared();

  int size() const { return static_cast<int>(bells_.size()); }
  double watchdog_seconds() const { return options_.watchdog_seconds; }
  LinkModel& links() { return links_; }
  Doorbell& bell(int rank) { return bells_[static_cast<std::size_t>(rank)]; }
  void ring(const std::vector<int>& ranks);

  const FailureNote& failure() const { return failure_; }
  // Wakes all ranks. Only the first failure counts.
  void fail(Failure failure);

  // Each rank's log is known while its communicator lives, and after.
  void set_log(int rank, std::shared_ptr<OperationLog> log);
  // "rank 3 (last operation: …), rank 4 (…)"
  std::string describe_ranks(const std::vector<int>& ranks) const;

  // The same meeting for all that name the same group; the n-th such group of a rank meets the n-th of the others.
  std::shared_ptr<LocalMeeting> meeting(int rank, const std::string& name, const std::vector<int>& ranks);

 private:
  using GroupKey = std::pair<std::string, std::vector<int>>;

  LocalOptions options_;
  LinkModel links_;
  std::vector<Doorbell> bells_;
  FailureNote failure_;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<OperationLog>> logs_;
  std::map<std::pair<GroupKey, std::uint64_t>, std::shared_ptr<LocalMeeting>> meetings_;
  std::map<std::pair<GroupKey, int>, std::uint64_t> made_;  // how often a rank has made a group
};

}  // namespace llmtrain

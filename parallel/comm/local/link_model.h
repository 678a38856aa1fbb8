// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <vector>

#include "parallel/comm/local/local_world.h"
#include "parallel/comm/operation.h"
#include "parallel/comm/request.h"

namespace llmtrain {

// Arrival times in an emulated network in which each rank has one outgoing link: see LocalOptions. Thread-safe.
class LinkModel {
 public:
  LinkModel(int ranks, const LocalOptions::Links& links);

  bool is_off() const {
    return links_.delay_seconds == 0 && links_.bytes_per_second == 0 && links_.message_seconds == 0;
  }

  struct Passage {
    Clock::time_point left;     // the sender's memory may be reused
    Clock::time_point arrived;  // the receiver has the message
  };
  Passage message(int sender, int receiver, double bytes, Clock::time_point start);

  // End of a collective that all members have started by `start`; `requests` are theirs, by position.
  Clock::time_point collective(const std::vector<Request>& requests, Clock::time_point start);

 private:
  bool share_node(int one, int other) const { return one / links_.node_ranks == other / links_.node_ranks; }
  bool share_node(const std::vector<int>& ranks) const;
  // For which `messages` with these bytes occupy a link.
  double sending_seconds(double messages, double bytes, bool in_node) const;
  double all_to_all_seconds(const Request& request) const;

  std::mutex mutex_;
  LocalOptions::Links links_;
  std::vector<Clock::time_point> free_from_;  // when each rank's link becomes free
};

}  // namespace llmtrain

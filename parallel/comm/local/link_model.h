// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <vector>

#include "parallel/comm/operation_log.h"
#include "parallel/comm/request.h"

namespace llmtrain {

// Arrival times in an emulated network in which each rank has one outgoing link: see LocalOptions. Thread-safe.
class LinkModel {
 public:
  LinkModel(int ranks, double delay_seconds, double bytes_per_second);

  bool is_off() const { return delay_seconds_ == 0 && bytes_per_second_ == 0; }

  struct Passage {
    Clock::time_point left;     // the sender's memory may be reused
    Clock::time_point arrived;  // the receiver has the message
  };
  Passage message(int sender, double bytes, Clock::time_point start);

  // End of a collective that all members have started by `start`; `requests` are theirs, by position.
  Clock::time_point collective(const std::vector<Request>& requests, Clock::time_point start);

 private:
  Clock::duration sending_time(double bytes) const;

  std::mutex mutex_;
  double delay_seconds_;
  double bytes_per_second_;
  std::vector<Clock::time_point> free_from_;  // when each rank's link becomes free
};

}  // namespace llmtrain

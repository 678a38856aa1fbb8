// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "parallel/plan/simulator/data_stream.h"
#include "parallel/plan/simulator/wires.h"

namespace llmtrain {

// What a rank sends to other stages: one tensor at a time. Times are in seconds.
class OutgoingLink {
 public:
  double free_at() const { return free_at_; }

  void send(const Interval& transfer, const WireShares& wires) {
    transfers_.push_back({transfer, wires});
    free_at_ = transfer.end;
  }

  // By how much something that starts at `start` takes longer than `seconds` because it shares wires with transfers
  // that are under way. Their receivers have been told when they end, so the next transfer waits instead. Call in the
  // order of starts.
  double lengthening(double start, double seconds, const WireShares& wires) {
    std::erase_if(transfers_, [&](const Transfer& known) { return known.time.end <= start; });
    double longer = 0;
    for (const Transfer& known : transfers_) {
      const double both = std::min(known.time.end, start + seconds) - std::max(known.time.start, start);
      longer += contention(wires, known.wires) * std::max(0.0, both);
    }
    free_at_ += longer;
    return longer;
  }

 private:
  struct Transfer {
    Interval time;
    WireShares wires;
  };
  std::vector<Transfer> transfers_;
  double free_at_ = 0;
};

}  // namespace llmtrain

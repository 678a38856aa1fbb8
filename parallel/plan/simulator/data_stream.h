// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "parallel/plan/simulator/step_costs.h"
#include "parallel/plan/simulator/wires.h"

namespace llmtrain {

struct Interval {
  double start = 0;
  double end = 0;
};

// A gather or a reduction, or a part of it.
struct DataCollective {
  double seconds = 0;  // if nothing runs beside it
  WireShares wires;
  std::size_t instruction = 0;  // index into the rank's schedule
};

// What the instructions of a stage occupy its rank's wires with.
inline WireShares pass_wires(const PassCost& cost) { return wire_shares(cost.wires, cost.seconds); }
inline DataCollective gather_of(const StageCost& cost, std::size_t instruction) {
  return {cost.gather_seconds, wire_shares(cost.gather_wires, cost.gather_seconds), instruction};
}
inline DataCollective reduction_of(const StageCost& cost, bool is_last) {
  const double seconds = cost.reduce_seconds + (is_last ? cost.last_reduce_seconds : 0);
  WireSeconds wires = cost.reduce_wires;
  if (is_last) wires += cost.last_reduce_wires;
  return {seconds, wire_shares(wires, seconds), 0};
}

// The stream of a rank's gathers and reductions, which run one after the other, like kernels on one stream. Times are
// in seconds. A collective's interval is the one that it has if nothing else begins; what begins later beside it and
// wants the same wires makes it, and all after it, end later.
class DataStream {
 public:
  using Ticket = std::ptrdiff_t;  // of a collective of this stream
  static constexpr Ticket none = -1;

  struct Running {
    Interval time;
    DataCollective collective;
  };

  // Runs a collective after all earlier ones, not before `earliest`, for `longer` than its own time.
  Ticket issue(double earliest, const DataCollective& collective, double longer = 0);

  // Runs what of a collective can run beside the pass whose parts complete its buckets; it ends with the pass, which it
  // lengthens as those of end_beside() do. `pass` is as end_beside() gives it; nothing else is issued before its end.
  // Returns when the pass ends and, unless nothing could run, the ticket of this part; the rest is for issue().
  struct Pass {
    Interval time;
    WireShares wires;
    double slowdown = 0;
  };
  struct Begun {
    double pass_end = 0;
    Ticket ticket = none;
    double seconds = 0;  // of those of the whole collective
  };
  Begun begin_beside(const Pass& pass, const DataCollective& collective, double buckets);
  void set_instruction(Ticket ticket, std::size_t instruction) {
    running_[static_cast<std::size_t>(ticket)].collective.instruction = instruction;
  }

  // End of what starts at `start` and takes `seconds` on its own: beside collectives it proceeds at the rate
  // 1 − slowdown, and where both want the same wires, each has half of them.
  double end_beside(double start, double seconds, const WireShares& wires, double slowdown);

  // The ticket's interval as known so far; {0, 0} of none.
  Interval interval(Ticket ticket) const {
    return ticket == none ? Interval{} : running_[static_cast<std::size_t>(ticket)].time;
  }
  double free_at() const { return running_.empty() ? 0 : running_.back().time.end; }
  const std::vector<Running>& all() const { return running_; }

 private:
  // Where the collective ends later than the next one starts, the next ones wait.
  void push_back_after(std::size_t index);

  std::vector<Running> running_;
};

}  // namespace llmtrain

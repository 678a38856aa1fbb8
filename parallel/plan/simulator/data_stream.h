// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace llmtrain {

struct Interval {
  double start = 0;
  double end = 0;
};

// The stream of a rank's gathers and reductions. Times are in seconds.
class DataStream {
 public:
  // Runs a collective after all earlier ones, not before `earliest`; returns when it runs.
  Interval issue(double earliest, double seconds);

  double free_at() const { return free_at_; }

  // End of a pass that starts at `start` and takes `seconds` on its own: while collectives run it proceeds at the rate
  // 1 − slowdown. Call in the order of starts, after issue() of the collectives that precede the pass.
  double end_of_pass(double start, double seconds, double slowdown);

 private:
  std::vector<Interval> running_;
  std::size_t first_ = 0;  // index into running_: the first that can still overlap a pass
  double free_at_ = 0;
};

}  // namespace llmtrain

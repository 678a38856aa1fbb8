// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace llmtrain {

struct Interval {
  double start = 0;
  double end = 0;
};

// The stream of a rank's gathers and reductions, in seconds.
class DataStream {
 public:
  // Runs a collective after all earlier ones and not before `earliest`.
  Interval issue(double earliest, double seconds);

  double free_at() const { return free_at_; }

  // When a pass ends that starts at `start` and takes `seconds` alone: beside collectives it goes on at the rate 1 −
  // slowdown. Passes come in the order of their starts, each after the collectives issued before it.
  double end_of_pass(double start, double seconds, double slowdown);

 private:
  std::vector<Interval> running_;
  std::size_t first_ = 0;  // of running_ that can still lie beside a pass
  double free_at_ = 0;
};

}  // namespace llmtrain

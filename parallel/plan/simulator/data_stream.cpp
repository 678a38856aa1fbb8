// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/simulator/data_stream.h"

#include <algorithm>

namespace llmtrain {

Interval DataStream::issue(double earliest, double seconds) {
  // Collectives of one rank run one after the other, like kernels on one stream.
  const double start = std::max(earliest, free_at_);
  free_at_ = start + seconds;
  running_.push_back({start, free_at_});
  return running_.back();
}

double DataStream::end_of_pass(double start, double seconds, double slowdown) {
  // Passes come in the order of their starts, so a collective that ended before this one is never needed again.
  while (first_ < running_.size() && running_[first_].end <= start) ++first_;
  const double rate = 1 - slowdown;
  double now = start, left = seconds;
  for (std::size_t i = first_; i < running_.size(); ++i) {
    // Alternates between the gap before a collective, at full speed, and the collective, at the reduced rate.
    const double alone = std::max(0.0, running_[i].start - now);
    if (left <= alone) break;
    left -= alone;
    now += alone;
    const double beside = running_[i].end - now;
    // The pass ends during this collective.
    if (left <= beside * rate) return now + left / rate;
    left -= beside * rate;
    now = running_[i].end;
  }
  return now + left;
}

}  // namespace llmtrain

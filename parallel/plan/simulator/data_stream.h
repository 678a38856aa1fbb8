// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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
  Interval issue(double earliest, double seconds) {
    // Collectives of one rank run one after the other, like kernels on one stream.
    const double start = std::max(earliest, free_at_);
    free_at_ = start + seconds;
    running_.push_back({start, free_at_});
    return running_.back();
  }

  // What of a collective can run beside the pass whose parts complete its buckets: the interval, which ends with the
  // pass, lengthened by it as by those of end_of_pass(). The rest is left for issue(). `pass` is as end_of_pass() gives
  // it; nothing else is issued before its end.
  Interval beside(const Interval& pass, double seconds, double buckets, double slowdown) const {
    // The first bucket is complete after its part of the pass, the last one only when the pass ends.
    const double from = std::max(free_at_, pass.start + (pass.end - pass.start) / buckets);
    const double early = seconds * (buckets - 1) / buckets;
    // The longer pass hides more. Buckets that wait for the pass leave gaps; the interval is as late as possible.
    const double hidden = std::clamp((pass.end - from) / (1 - slowdown), 0.0, early);
    const double end = pass.end + slowdown * hidden;
    return {end - hidden, end};
  }

  double free_at() const { return free_at_; }

  // End of a pass that starts at `start` and takes `seconds` on its own: while collectives run it proceeds at the rate
  // 1 − slowdown. Call in the order of starts, after issue() of the collectives that precede the pass.
  double end_of_pass(double start, double seconds, double slowdown) {
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

 private:
  std::vector<Interval> running_;
  std::size_t first_ = 0;  // index into running_: the first that can still overlap a pass
  double free_at_ = 0;
};

}  // namespace llmtrain

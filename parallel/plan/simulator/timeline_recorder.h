// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "parallel/plan/simulator/clocks.h"
#include "parallel/plan/simulator/simulator.h"

namespace llmtrain {

// Collects the entries of a simulation's timeline, or none.
class TimelineRecorder {
 public:
  explicit TimelineRecorder(Timeline timeline) : timeline_(timeline) {}

  // Notes what the instruction takes that the rank is at.
  void record(const RankClock& here, Stream stream, const Interval& interval, double seconds_alone) {
    if (timeline_ == Timeline::leave_out) return;
    entries_.push_back(
        {here.rank, static_cast<std::int32_t>(here.next), stream, interval.start, interval.end, seconds_alone});
  }

  // All of the data stream, once nothing can delay it any more.
  void record_data(const RankClock& here) {
    if (timeline_ == Timeline::leave_out) return;
    const std::size_t first = entries_.size();
    for (const auto& [time, collective] : here.data.all()) {
      const auto instruction = static_cast<std::int32_t>(collective.instruction);
      // A reduction beside a backward and the rest of it.
      const bool continues = entries_.size() > first && entries_.back().instruction == instruction &&
                             entries_.back().end_seconds >= time.start;
      if (continues) {
        entries_.back().end_seconds = time.end;
        entries_.back().seconds_alone += collective.seconds;
      } else {
        entries_.push_back({here.rank, instruction, Stream::data, time.start, time.end, collective.seconds});
      }
    }
  }

  // Sorted by rank and start.
  std::vector<TimelineEntry> take() {
    std::ranges::stable_sort(entries_, {}, [](const TimelineEntry& entry) {
      return std::tuple(entry.rank, entry.start_seconds, entry.end_seconds);
    });
    return std::move(entries_);
  }

 private:
  Timeline timeline_;
  std::vector<TimelineEntry> entries_;
};

}  // namespace llmtrain

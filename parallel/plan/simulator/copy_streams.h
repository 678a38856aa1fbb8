// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "parallel/plan/simulator/step_copies.h"

namespace llmtrain {

// A rank's streams of copies to the device and to the host, and of the host's work: each does one thing after the
// other. A copy to the device, and the host's work, begin after all copies to the host that were issued before them:
// the former may need their memory, the latter their contents. What returns shares the way with copies to the device
// half and half, so that these need not wait for the host's work. Times are in seconds; nothing is issued at a time
// before that of what was asked for until then.
class CopyStreams {
 public:
  explicit CopyStreams(double contention = 0) : contention_(contention) {}

  // Issues what an instruction needs when the rank comes to it, at `clock`, and what runs beside it from its start on.
  // Returns its start: not before `earliest`, and when all copies to the device are done that were issued so far and,
  // where it waits for them, those to the host.
  double begin(const InstructionCopies& copies, double clock, double earliest);
  // When everything is done; 0 where nothing was issued.
  double finish();
  // For which anything moved in this direction, or the host worked.
  double busy_seconds(CopyLane lane) const { return busy_[static_cast<std::size_t>(lane)]; }

 private:
  struct Job {
    double earliest = 0;
    double left = 0;          // seconds alone
    std::size_t follows = 0;  // copies to the host that have to be done, or of what returns the host's work
    double end = 0;
  };
  struct Lane {
    std::vector<Job> jobs;
    std::size_t done = 0;
  };

  Lane& lane_of(CopyLane lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  void issue(const Copy& copy, double earliest);
  // The lane's job that runs now; none: it has none, or waits.
  std::optional<std::size_t> running(CopyLane lane) const;
  // Goes on to the next moment at which a job begins or ends.
  void advance();
  double end_of(CopyLane lane);

  double contention_;
  double now_ = 0;
  std::array<Lane, copy_lanes> lanes_;
  std::array<double, copy_lanes> busy_{};
};

}  // namespace llmtrain

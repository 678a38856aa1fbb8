// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/simulator/copy_streams.h"

#include <algorithm>
#include <limits>

namespace llmtrain {
namespace {

// The lane whose earlier jobs a job of this lane follows.
CopyLane followed_by(CopyLane lane) { return lane == CopyLane::returning ? CopyLane::host_work : CopyLane::to_host; }

}  // namespace

void CopyStreams::issue(const Copy& copy, double earliest) {
  const std::size_t follows = copy.lane == CopyLane::to_host ? 0 : lane_of(followed_by(copy.lane)).jobs.size();
  lane_of(copy.lane).jobs.push_back({earliest, copy.seconds, follows, 0});
}

double CopyStreams::begin(const InstructionCopies& copies, double clock, double earliest) {
  for (const Copy& copy : copies.before) issue(copy, clock);
  double start = std::max(earliest, end_of(CopyLane::to_device));
  const bool waits = copies.waits_for_room || std::ranges::count(copies.before, CopyLane::to_host, &Copy::lane) > 0;
  if (waits) start = std::max(start, end_of(CopyLane::to_host));
  for (const Copy& copy : copies.beside) issue(copy, start);
  return start;
}

double CopyStreams::finish() {
  double end = 0;
  for (std::size_t lane = 0; lane < copy_lanes; ++lane) end = std::max(end, end_of(static_cast<CopyLane>(lane)));
  return end;
}

std::optional<std::size_t> CopyStreams::running(CopyLane lane) const {
  const Lane& queue = lanes_[static_cast<std::size_t>(lane)];
  if (queue.done == queue.jobs.size()) return std::nullopt;
  const Job& job = queue.jobs[queue.done];
  const std::size_t done = lanes_[static_cast<std::size_t>(followed_by(lane))].done;
  const bool has_to_wait = job.earliest > now_ || (lane != CopyLane::to_host && job.follows > done);
  return has_to_wait ? std::nullopt : std::optional(queue.done);
}

void CopyStreams::advance() {
  std::array<std::optional<std::size_t>, copy_lanes> jobs;
  for (std::size_t lane = 0; lane < copy_lanes; ++lane) jobs[lane] = running(static_cast<CopyLane>(lane));
  const auto runs = [&](CopyLane lane) { return jobs[static_cast<std::size_t>(lane)].has_value(); };
  const bool shares = runs(CopyLane::to_device) && runs(CopyLane::returning);
  const bool both_move = runs(CopyLane::to_host) && (runs(CopyLane::to_device) || runs(CopyLane::returning));
  // Directions share the host's memory; the processor's work on it is priced with what else it does.
  const auto rate = [&](std::size_t index) {
    const auto lane = static_cast<CopyLane>(index);
    if (lane == CopyLane::host_work) return 1.0;
    return (both_move ? 1 - contention_ : 1) * (shares && lane != CopyLane::to_host ? 0.5 : 1);
  };
  double next = std::numeric_limits<double>::infinity();
  for (std::size_t lane = 0; lane < copy_lanes; ++lane) {
    const Lane& queue = lanes_[lane];
    if (jobs[lane])
      next = std::min(next, now_ + queue.jobs[*jobs[lane]].left / rate(lane));
    else if (queue.done < queue.jobs.size() && queue.jobs[queue.done].earliest > now_)
      next = std::min(next, queue.jobs[queue.done].earliest);
  }
  for (std::size_t lane = 0; lane < copy_lanes; ++lane) {
    if (!jobs[lane]) continue;
    Job& job = lanes_[lane].jobs[*jobs[lane]];
    busy_[lane] += next - now_;
    const bool ends = now_ + job.left / rate(lane) <= next;
    job.left = ends ? 0 : job.left - (next - now_) * rate(lane);
    if (!ends) continue;
    job.end = next;
    ++lanes_[lane].done;
  }
  now_ = next;
}

double CopyStreams::end_of(CopyLane lane) {
  Lane& queue = lane_of(lane);
  while (queue.done < queue.jobs.size()) advance();
  return queue.jobs.empty() ? 0 : queue.jobs.back().end;
}

}  // namespace llmtrain

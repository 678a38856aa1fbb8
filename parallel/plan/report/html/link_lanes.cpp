// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/link_lanes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "core/page/html.h"
#include "parallel/plan/simulator/data_stream.h"

namespace llmtrain {
namespace {

// Beyond so many changes a lane is drawn in columns of a unit, so that a page stays small.
constexpr std::size_t most_changes = 2200;

// The seconds for which an entry keeps its rank's wires busy.
WireSeconds busy_seconds(const Plan& plan, const TimelineEntry& entry) {
  const auto& instructions = plan.layout->schedule().ranks.at(static_cast<std::size_t>(entry.rank)).instructions;
  const Instruction& instruction = instructions.at(static_cast<std::size_t>(entry.instruction));
  const auto of_data = [&](const DataCollective& collective) {
    return WireSeconds{collective.wires.links * entry.seconds_alone, collective.wires.adapters * entry.seconds_alone};
  };
  const StageCost* stage =
      instruction.stage < 0 ? nullptr : &plan.costs.stages.at(static_cast<std::size_t>(instruction.stage));
  switch (instruction.operation) {
    case Operation::forward:
      return stage->forward.wires;
    case Operation::backward:
      return stage->backward.wires;
    case Operation::gather_weights:
      return of_data(gather_of(*stage, 0));
    case Operation::reduce_gradients:
      return of_data(reduction_of(*stage, false));
    case Operation::send_activation:
    case Operation::send_gradient:
      return plan.costs.transfer_wires.empty() ? WireSeconds{} : plan.costs.transfer_wires.at(cut_of(instruction));
    // Links carry both directions at once, and what a rank receives is somebody's sending.
    case Operation::receive_activation:
    case Operation::receive_gradient:
    case Operation::free_weights:
    case Operation::evict_gradients:
    case Operation::optimizer_step:
      break;
  }
  return {};
}

// From `x` on, the busy share is so much more.
struct Change {
  double x = 0;
  double share = 0;
};

// Several at once share a wire, so that they add up to its whole at most.
double drawn_share(double share) { return std::clamp(std::round(share * 100) / 100, 0.0, 1.0); }

class Staircase {
 public:
  void go(double x, double share) {
    share = drawn_share(share);
    if (share == share_) return;
    draw_until(x);
    share_ = share;
  }

  std::string path(double width) {
    draw_until(width);
    if (!is_busy_) return "";
    return fmt::format("M0 {0}{1}V{0}z", svg_number(wire_lane_height), steps_);
  }

 private:
  // V and H: the level, and where it ends.
  void draw_until(double x) {
    if (share_ > 0) is_busy_ = true;
    steps_ += fmt::format("V{}H{}", svg_number(wire_lane_height * (1 - share_)), svg_number(x));
  }

  double share_ = 0;
  bool is_busy_ = false;
  std::string steps_;
};

std::string exact_path(std::vector<Change> changes, double width) {
  std::ranges::stable_sort(changes, {}, &Change::x);
  Staircase stairs;
  double share = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    share += changes[i].share;
    const bool is_last_here = i + 1 == changes.size() || changes[i + 1].x > changes[i].x;
    if (is_last_here) stairs.go(changes[i].x, share);
  }
  return stairs.path(width);
}

// Draws the mean over every unit of the axis, so that the path stays short however often the lane changes.
std::string column_path(const std::vector<Change>& changes, double width) {
  std::vector<double> columns(static_cast<std::size_t>(std::ceil(width)));
  // In pairs: what begins, and its end.
  for (std::size_t i = 0; i + 1 < changes.size(); i += 2) {
    const double from = changes[i].x, to = std::min(changes[i + 1].x, width);
    for (auto column = static_cast<std::size_t>(from); column < columns.size(); ++column) {
      const auto left = static_cast<double>(column);
      if (left >= to) break;
      columns[column] += changes[i].share * (std::min(to, left + 1) - std::max(from, left));
    }
  }
  Staircase stairs;
  for (std::size_t column = 0; column < columns.size(); ++column)
    stairs.go(static_cast<double>(column), columns[column]);
  return stairs.path(width);
}

std::string lane_path(const std::vector<Change>& changes, double width) {
  return changes.size() > most_changes ? column_path(changes, width) : exact_path(changes, width);
}

}  // namespace

WireLanes wire_lanes(const Plan& plan, const TimelineSelection& selection, const TimeAxis& axis, std::int32_t rank) {
  std::vector<Change> links, adapters;
  for (const TimelineEntry& entry : selection.entries) {
    const double seconds = entry.end_seconds - entry.start_seconds;
    if (entry.rank != rank || seconds <= 0) continue;
    const WireSeconds busy = busy_seconds(plan, entry);
    const double from = axis.x(entry.start_seconds), to = axis.x(entry.end_seconds);
    const auto add = [&](std::vector<Change>& changes, double busy_seconds) {
      if (busy_seconds <= 0) return;
      const double share = std::min(1.0, busy_seconds / seconds);
      changes.push_back({from, share});
      changes.push_back({to, -share});
    };
    add(links, busy.links);
    add(adapters, busy.adapters);
  }
  return {lane_path(links, axis.width()), lane_path(adapters, axis.width())};
}

bool uses_wires(const Plan& plan) {
  const auto is_used = [](const WireSeconds& wires) { return wires.longest() > 0; };
  return std::ranges::any_of(plan.costs.transfer_wires, is_used) ||
         std::ranges::any_of(plan.costs.stages, [&](const StageCost& stage) {
           return is_used(stage.forward.wires) || is_used(stage.backward.wires) || is_used(stage.gather_wires) ||
                  is_used(stage.reduce_wires);
         });
}

}  // namespace llmtrain

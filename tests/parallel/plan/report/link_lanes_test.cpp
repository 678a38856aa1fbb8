// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/link_lanes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "tests/parallel/plan/report/sample_plan.h"

namespace llmtrain {
namespace {

using test::looped;

// Passes use the links for a third of their time, gathers and reductions the adapters for half of theirs, and tensors
// that are sent for all of it.
Plan wired_plan(const ScheduleShape& shape) {
  Plan plan = test::sample_plan(shape);
  for (StageCost& stage : plan.costs.stages) {
    stage.forward.wires.links = stage.forward.seconds / 3;
    stage.backward.wires.links = stage.backward.seconds / 3;
    stage.gather_wires.adapters = stage.gather_seconds / 2;
    stage.reduce_wires.adapters = stage.reduce_seconds / 2;
  }
  for (const double seconds : plan.costs.transfer_seconds) plan.costs.transfer_wires.push_back({0, seconds});
  plan.simulation = simulate(plan.layout->schedule(), plan.costs, plan.memory, Timeline::record);
  return plan;
}

// The area of a lane ÷ that of a lane that is always busy.
double busy_share(const std::string& path, double width) {
  double area = 0, at = 0;
  for (std::size_t level = path.find('V'); level != std::string::npos; level = path.find('V', level + 1)) {
    const std::size_t end = path.find('H', level);
    if (end == std::string::npos) break;
    const double y = std::strtod(path.c_str() + level + 1, nullptr), x = std::strtod(path.c_str() + end + 1, nullptr);
    CHECK(x >= at);
    CHECK(y >= 0);
    CHECK(y <= wire_lane_height);
    area += (wire_lane_height - y) * (x - at);
    at = x;
  }
  CHECK(at == Approx(width));
  return area / (wire_lane_height * width);
}

struct Busy {
  double links = 0, adapters = 0;
};

Busy drawn(const Plan& plan, std::int32_t rank) {
  const TimelineSelection selection = select_timeline(plan.simulation, 0);
  const TimeAxis axis(plan.simulation.step_seconds, plot_width, selection.cut);
  const WireLanes lanes = wire_lanes(plan, selection, axis, rank);
  return {busy_share(lanes.links, plot_width), busy_share(lanes.adapters, plot_width)};
}

TEST_CASE("the lanes of a rank's wires are as busy as its instructions make them") {
  const Plan plan = wired_plan(looped);
  for (std::int32_t rank = 0; rank < looped.pipeline; ++rank) {
    double links = 0, adapters = 0;
    for (const TimelineEntry& entry : plan.simulation.timeline) {
      if (entry.rank != rank) continue;
      const auto& instructions = plan.layout->schedule().ranks[static_cast<std::size_t>(rank)].instructions;
      const Operation operation = instructions[static_cast<std::size_t>(entry.instruction)].operation;
      if (operation == Operation::forward || operation == Operation::backward) links += entry.seconds_alone / 3;
      if (entry.stream == Stream::data) adapters += entry.seconds_alone / 2;
      if (operation == Operation::send_activation || operation == Operation::send_gradient)
        adapters += entry.seconds_alone;
    }
    const Busy busy = drawn(plan, rank);
    REQUIRE(links > 0);
    REQUIRE(adapters > 0);
    CHECK(busy.links == Approx(links / plan.simulation.step_seconds).epsilon(0.03));
    // Where two want a wire at once, each takes longer, so that a lane is never more than full.
    CHECK(busy.adapters == Approx(adapters / plan.simulation.step_seconds).epsilon(0.05));
  }
}

TEST_CASE("a long step's lanes are drawn in columns that are as busy") {
  ScheduleShape longer = looped;
  longer.micro_batches = 512;
  const Plan plan = wired_plan(longer);
  const RankSimulation& first = plan.simulation.ranks.front();
  const TimelineSelection selection = select_timeline(plan.simulation, 0);
  const TimeAxis whole(plan.simulation.step_seconds, plot_width, std::nullopt);
  TimelineSelection all = selection;
  all.entries = plan.simulation.timeline;
  const WireLanes lanes = wire_lanes(plan, all, whole, 0);
  CHECK(lanes.links.size() < 40'000);
  const double passes = first.busy_seconds - first.slowed_seconds;
  CHECK(busy_share(lanes.links, plot_width) == Approx(passes / 3 / plan.simulation.step_seconds).epsilon(0.03));
}

TEST_CASE("a plan without wires has no lanes for them") {
  const Plan plan = test::sample_plan(looped);
  CHECK_FALSE(uses_wires(plan));
  CHECK(uses_wires(wired_plan(looped)));
  const TimelineSelection selection = select_timeline(plan.simulation, 0);
  const WireLanes lanes =
      wire_lanes(plan, selection, TimeAxis(plan.simulation.step_seconds, plot_width, selection.cut), 0);
  CHECK(lanes.links.empty());
  CHECK(lanes.adapters.empty());
}

}  // namespace
}  // namespace llmtrain

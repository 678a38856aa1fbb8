// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "parallel/plan/report/html/drawn_step.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

// How busy the wires of ranks are over a step: the links to the other ranks of a node, and the rank's share of the
// node's adapters, by collectives inside passes, gathers and reductions, and tensors that it sends.

// Height of one wire's lane, in units of the SVG's view box.
constexpr double wire_lane_height = 7;

// SVG paths of one rank, areas whose height is the busy share, for lanes whose tops are at 0; empty: never busy.
struct WireLanes {
  std::string links, adapters;
};
WireLanes wire_lanes(const Plan& plan, const TimelineSelection& selection, const TimeAxis& axis, std::int32_t rank);

// Whether a plan knows of any wire that a rank uses. A measured step does not.
bool uses_wires(const Plan& plan);

}  // namespace llmtrain

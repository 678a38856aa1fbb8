// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/graph/graph.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/search/layout_space.h"

namespace llmtrain {

// How much slower than the fastest a layout may be for its little memory.
inline constexpr double slowest_of_front = 4;

// By layout_estimates.h. One with optimizer states on the host also as if as many of its stages stayed on the device as
// have room.
struct EstimatedLayout {
  LayoutChoice choice;
  double seconds = 0, bytes = 0;
};

struct EstimatedLayouts {
  std::vector<EstimatedLayout> layouts;  // that fit, the fastest first
  std::int64_t considered = 0;           // legal by their sizes
  std::int64_t estimated = 0;            // of them, those that no bound ruled out
};

// The layouts of the space near the front of estimated time and memory: left out are those that by their bounds
// (layout_bounds.h) do not fit, or are a twentieth slower than another one that needs no more memory, or
// `slowest_of_front` times as slow as the fastest. `profile` is that of one rank's share of its device.
EstimatedLayouts estimate_layouts(const LayoutSpace& space, const ClusterProfile& profile,
                                  std::int64_t devices_per_node, const std::shared_ptr<const Graph>& graph);

}  // namespace llmtrain

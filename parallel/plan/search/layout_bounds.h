// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "core/graph/graph.h"
#include "parallel/layout/layout.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/search/layout_space.h"

namespace llmtrain {

// Seconds and bytes that no layout with these choices falls short of by much.
struct LayoutBound {
  double seconds = 0, bytes = 0;
};

// Bounds of layouts from few prices: passes do not depend on how many stages they are cut into, states hardly on where
// they are. A search asks for hundreds of thousands of bounds, and for the estimates of the few that are worth it.
class LayoutBounds {
 public:
  // The arguments must outlive it; `profile` is that of one rank's share of its device.
  LayoutBounds(const LayoutSpace& space, const ClusterProfile& profile, std::int64_t devices_per_node,
               std::shared_ptr<const Graph> graph);

  // What a rank's states take, as the mean over all ranks.
  struct StatePrice {
    double bytes = 0;  // that it holds throughout a step
    // Whole weights while they are used, and whole gradients until they are reduced, over all of the rank's stages.
    double gathered_bytes = 0, unreduced_bytes = 0;
    // To gather the weights and to reduce the gradients once, and of the optimizer's step.
    double gather_seconds = 0, reduce_seconds = 0, optimizer_seconds = 0;
  };
  // None where a rule refuses the degrees.
  std::optional<StatePrice> state_price(const DegreeChoice& degrees, const ShardingChoice& sharding,
                                        Fp8Level fp8_level) const;

  // What one micro-batch takes in the whole model.
  struct PassPrice {
    double seconds = 0;     // forward and backward; infinite where a rule refuses the passes
    double unit_bytes = 0;  // that a layer, or another unit, keeps for its backward, at the least
    double end_bytes = 0;   // of the block that ends the model, during its backward; 0 where that is a unit

    bool operator==(const PassPrice&) const = default;
  };
  const PassPrice& pass_price(const DegreeChoice& degrees, const PassChoice& passes);

  // The bound of all stage choices together, and that of one.
  LayoutBound of(const DegreeChoice& degrees, const ShardingChoice& sharding, const PassChoice& passes,
                 const StatePrice& states);
  LayoutBound of(const LayoutChoice& choice, const StatePrice& states);

 private:
  Partition partition(const DegreeChoice& degrees, const ShardingChoice& sharding, const PassChoice& passes) const;
  PassPrice price(const DegreeChoice& degrees, const PassChoice& passes) const;
  ScheduleShape shape_of(const LayoutChoice& choice) const;
  double step_seconds(const ScheduleShape& shape, double window, const StatePrice& states) const;

  const LayoutSpace& space_;
  const ClusterProfile& profile_;
  std::int64_t devices_per_node_;
  std::shared_ptr<const Graph> graph_;
  // By the choices that passes depend on: a layer's ranks, and how it runs.
  std::map<std::array<std::int64_t, 7>, PassPrice> passes_;
};

}  // namespace llmtrain

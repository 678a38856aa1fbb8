// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/recipe/recipe.h"
#include "parallel/comm/communicator.h"
#include "parallel/device/device.h"
#include "parallel/engine/trainer.h"
#include "parallel/layout/layout.h"

namespace llmtrain::test {

// The layout of a recipe on this many ranks, of one node unless the recipe says how many are on each.
inline std::shared_ptr<const Layout> layout_of(Recipe recipe, int ranks) {
  recipe.launch.ranks = ranks;
  return std::make_shared<const Layout>(Partition::make(recipe, recipe.cluster.devices_per_node.value_or(ranks)));
}

struct LoneRank {
  std::shared_ptr<Communicator> communicator = make_solo_communicator();
};

// A trainer of one rank, on the device that its recipe selects.
class LoneTrainer : LoneRank, public Trainer {
 public:
  explicit LoneTrainer(const Recipe& recipe)
      : Trainer(layout_of(recipe, 1), *communicator, choose_device(recipe.cluster.device)) {}
};

}  // namespace llmtrain::test

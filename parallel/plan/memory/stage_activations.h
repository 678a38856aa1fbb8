// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/saved_tensors.h"
#include "core/recipe/recipe.h"
#include "parallel/plan/mesh.h"
#include "parallel/plan/placement.h"

namespace llmtrain {

// How a rank of the mesh runs a block on one micro-batch of the recipe.
PassSetting pass_setting(const Recipe& recipe, const Mesh& mesh, KernelSet kernels);

// What each block of the graph keeps and holds in one micro-batch. Layers that are alike are worked out once.
class BlockActivations {
 public:
  BlockActivations(const Graph& graph, const PassSetting& setting);

  struct Entry {
    double saved = 0;
    PassPeak peak;
  };
  const Entry& of(std::size_t block) const { return entries_[kinds_[block]]; }
  double boundary() const { return boundary_; }

 private:
  std::vector<std::size_t> kinds_;  // block → index into entries_
  std::vector<Entry> entries_;
  double boundary_ = 0;
};

// Activations of one stage and one micro-batch, as StageMemory counts them.
struct StageActivations {
  double saved = 0;
  double forward_workspace = 0;
  double backward_workspace = 0;
  double boundary = 0;
  double largest_block = 0;  // of what is saved
};

// Where the stage before and the stage behind are. Between stages of one rank (pipeline 1) the tensor that passes is
// saved by the first of them. What passes to or from another rank is counted as communication while a pass runs, so
// the workspaces leave it out.
enum class Neighbour { none, same_rank, other_rank };
struct StageEnds {
  Neighbour before = Neighbour::none;
  Neighbour behind = Neighbour::none;
};

StageActivations stage_activations(const BlockActivations& blocks, const Stage& stage, const StageEnds& ends);

}  // namespace llmtrain

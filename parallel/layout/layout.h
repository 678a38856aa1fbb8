// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/pass_setting.h"
#include "core/recipe/recipe.h"
#include "parallel/layout/exchange_methods.h"
#include "parallel/layout/mesh.h"
#include "parallel/layout/stages.h"
#include "parallel/layout/state_groups.h"
#include "parallel/schedule/schedule.h"

namespace llmtrain {

// How a recipe's model and batch are divided over the ranks of a world: everything in a Layout except its instructions,
// so that a search can examine thousands of them per second.
struct Partition {
  Recipe recipe;
  std::shared_ptr<const Graph> graph;
  Mesh mesh;
  std::vector<Stage> stages;                    // of the whole model
  std::vector<std::vector<StateGroup>> groups;  // of each stage
  std::vector<LentParameter> lent;              // between stages of one rank
  ScheduleShape shape;
  ExchangeMethods exchange;
  std::vector<std::int64_t> expert_splits;  // that a run tries, the most promising first; none: that of the mesh
  std::int64_t kept_tokens = 0;  // of a step that is priced: of each sequence in layers that drop tokens; 0: all

  // `graph` is that of recipe.model, built here if null, or one of other blocks; `devices_per_node` as in make_mesh().
  // Throws Error(bad_recipe) with every reason if the recipe cannot be laid out, or with the first parameter of the
  // graph that its ranks do not divide.
  static Partition make(const Recipe& recipe, std::int64_t devices_per_node,
                        std::shared_ptr<const Graph> graph = nullptr);
  // On a given mesh, whether or not the rules of recipes allow it.
  static Partition on_mesh(const Recipe& recipe, const Mesh& mesh, std::shared_ptr<const Graph> graph = nullptr);

  // With another split of the experts' products, one of expert_splits().
  Partition split_by(std::int64_t ranks) const;

  // The effective ZeRO stage: 0 without ranks to shard over.
  std::int64_t zero_stage() const { return shape.sharding(); }
  // The pipeline rank that holds a stage.
  std::size_t rank_of(std::size_t stage) const { return stage % static_cast<std::size_t>(mesh.pipeline); }
  bool is_last(std::size_t stage) const { return stage + 1 == stages.size(); }
  // The values that cross the cut behind a stage; none behind the last one.
  std::span<const std::size_t> outgoing(std::size_t stage) const {
    return is_last(stage) ? std::span<const std::size_t>() : stages[stage + 1].incoming;
  }
  // The ranks of a pipeline that hold copies of the same parameters (StateGroup::holders): all such sets, ascending.
  std::set<std::vector<std::size_t>> sharing_ranks() const;
  // The tensor ranks that hold the same units as this one of what has so many copies (copy_counts()), ascending, itself
  // among them: neighbours in the tensor group.
  std::vector<int> copies_of(int rank, std::int64_t copies) const;
};

// Whether the graphs of two recipes are equal, so that one serves for both.
bool have_equal_graphs(const Recipe& a, const Recipe& b);

// How a rank of this program runs a block on one micro-batch on a CPU.
PassSetting pass_setting(const Partition& partition);

// What a run does, derived once from a recipe and a world, and immutable: the mesh, the placement of blocks on stages,
// the groups of their states, and each pipeline rank's list of instructions, proven by check(). The planner prices this
// object and the ranks execute it; nothing else creates a mesh or a schedule.
class Layout {
 public:
  explicit Layout(Partition partition);

  const Partition& partition() const { return partition_; }
  const Recipe& recipe() const { return partition_.recipe; }
  const Graph& graph() const { return *partition_.graph; }
  const Mesh& mesh() const { return partition_.mesh; }
  const Schedule& schedule() const { return schedule_; }

  // That of steps with such a global batch, one of the sizes of BatchSizes: this one's own is of batch.global.
  Layout of_batch(std::int64_t global) const;

 private:
  Partition partition_;
  Schedule schedule_;
};

}  // namespace llmtrain

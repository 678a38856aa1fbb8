// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/graph/graph.h"
#include "core/recipe/recipe.h"
#include "parallel/layout/mesh.h"

namespace llmtrain {

// What a search decides of a recipe, in four parts; all other keys stay as they are.
struct DegreeChoice {
  std::int64_t tensor = 1, context = 1, pipeline = 1, data = 1, expert = 1, expert_tensor = 1;
};
struct ShardingChoice {
  std::int64_t zero_stage = 0;
  std::optional<std::int64_t> shard_ranks;  // none: all data ranks
};
struct PassChoice {
  std::int64_t micro = 1;
  Recompute recompute = Recompute::none;
  Fp8Level fp8_level = Fp8Level::off;
};
struct StageChoice {
  std::int64_t loops = 1;
  BalanceKind balance = BalanceKind::layers;
  PipelineSchedule schedule = PipelineSchedule::breadth_first;
};

struct LayoutChoice {
  DegreeChoice degrees;
  ShardingChoice sharding;
  PassChoice passes;
  StageChoice stages;
};

// The layouts that a search considers for a recipe in a world of the size of `mesh`. What is impossible by its sizes is
// left out; the rules of recipes may refuse some of the others.
class LayoutSpace {
 public:
  // The arguments must outlive it.
  LayoutSpace(const Recipe& recipe, const Mesh& mesh, const Graph& graph)
      : recipe_(recipe), mesh_(mesh), graph_(graph), units_(graph.units()) {}

  std::vector<DegreeChoice> degrees() const;
  std::vector<ShardingChoice> shardings(const DegreeChoice& degrees) const;
  // Up to the recipe's own: they affect accuracy.
  std::vector<Fp8Level> fp8_levels() const;
  std::vector<PassChoice> passes(const DegreeChoice& degrees) const;
  std::vector<StageChoice> stages(const DegreeChoice& degrees, const ShardingChoice& sharding,
                                  std::int64_t micro) const;

  std::int64_t micro_batches(const DegreeChoice& degrees, std::int64_t micro) const {
    return recipe_.batch.global / (degrees.data * micro);
  }
  std::int64_t units() const { return units_; }
  bool overlaps() const { return recipe_.parallel.overlap; }
  bool brings_weights() const { return recipe_.memory.offload.weights; }
  // Whether optimizer states leave for the host by stages, of which some may stay (memory.offload.resident_stages).
  bool may_keep_stages() const { return recipe_.memory.offload.optimizer == StatesPlace::host; }
  // The recipe with the layout.
  Recipe recipe(const LayoutChoice& choice) const;

 private:
  // What stages have in equal numbers.
  std::int64_t placed(BalanceKind balance) const;
  std::vector<std::int64_t> loops_of(std::int64_t pipeline, BalanceKind balance) const;
  bool splits_sequences(std::int64_t parts) const;
  void add_experts(DegreeChoice degrees, std::vector<DegreeChoice>& found) const;

  const Recipe& recipe_;
  const Mesh& mesh_;
  const Graph& graph_;
  std::int64_t units_;  // of the graph, which counts them anew; a search asks for each of its layouts
};

}  // namespace llmtrain

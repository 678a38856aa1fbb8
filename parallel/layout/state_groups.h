// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/element_type.h"
#include "core/graph/graph.h"
#include "core/recipe/recipe.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/layout/mesh.h"
#include "parallel/layout/stages.h"
#include "parallel/schedule/schedule.h"

namespace llmtrain {

// The types in which training stores a parameter's states.
struct StateTypes {
  ElementType weight = ElementType::float32;
  ElementType gradient = ElementType::float32;
  std::optional<ElementType> master = std::nullopt;  // none: the weight is its own master
  ElementType first_moment = ElementType::float32;
  std::optional<ElementType> second_moment = ElementType::float32;  // none: of an optimizer that has no such state
  // In which the micro-batches' gradients are summed before they are reduced; none: in `gradient`. Not counted below:
  // it exists from a stage's first backward to its reduction.
  std::optional<ElementType> accumulator = std::nullopt;
  bool is_trained = true;   // else there are neither gradients nor moments
  double packed_bytes = 0;  // per weight, where these are kept in blocks of fewer bits than a type has; else 0

  double weight_bytes() const { return packed_bytes > 0 ? packed_bytes : static_cast<double>(element_bytes(weight)); }
  double gradient_bytes() const { return is_trained ? element_bytes(gradient) : 0; }
  double master_bytes() const { return master ? element_bytes(*master) : 0; }
  double moment_bytes() const {
    return is_trained ? element_bytes(first_moment) + (second_moment ? element_bytes(*second_moment) : 0) : 0;
  }
  // How many of the moments are in small types, with a scale per tensor: those that are neither in fp32 nor in bf16,
  // which has the same range.
  int scaled_moments() const {
    const auto is_scaled = [](ElementType type) {
      return type != ElementType::float32 && type != ElementType::bfloat16;
    };
    return (is_scaled(first_moment) ? 1 : 0) + (is_scaled(second_moment.value_or(ElementType::float32)) ? 1 : 0);
  }
  // How often an update reads the states: the scales of small moments take a pass before the one that stores them.
  int passes() const { return scaled_moments() > 0 ? 2 : 1; }
};

// Types of parameters that FP8 levels do not affect: fp32 weights are their own master, bf16 and fp16 weights have an
// fp32 master; moments are fp32, gradients precision.gradients.
StateTypes state_types(const PrecisionRecipe& precision);
// Types of the layers' weight matrices at FP8 levels (MS-AMP's optimization levels): from O1 on FP8 gradients and fp16
// weights that are their own master, from O2 on an FP8 first and an fp16 second moment, at O3 FP8 weights with an fp16
// master. Gradients are accumulated in precision.gradients: FP8 sums would round after every micro-batch.
StateTypes fp8_state_types(const PrecisionRecipe& precision);
// Types of the matrices that Muon trains: those of the others without a second moment.
StateTypes muon_state_types(const PrecisionRecipe& precision);
// The same where a program keeps all states of 16-bit weights in bf16: weights are their own master. Not of FP8 levels.
StateTypes narrow_states(StateTypes types);
// Types of frozen parameters: weights in the compute type, which no update needs more precisely.
StateTypes frozen_state_types(const PrecisionRecipe& precision);

// Parameters of a stage that are stored and sharded alike and share flat memory. The planner prices groups, the runner
// allocates them.
struct StateGroup {
  // What distinguishes the groups of a stage.
  enum class Kind { dense, experts };
  Kind kind = Kind::dense;
  // The stages that read them, where these are on several ranks of the pipeline: the first stage of each of these ranks
  // then has a copy with all states. Such parameters are groups of their own, because one rank's stage may reduce its
  // gradients long before another rank adds to them. Empty where one rank reads them.
  std::vector<std::size_t> readers;
  std::vector<std::size_t> holders;  // the pipeline ranks of the readers, ascending
  bool is_fp8 = false;
  bool is_frozen = false;
  bool is_packed = false;  // of these, in 4 bits
  bool is_muon = false;    // whole matrices, trained by Muon (core/optim/muon.h); else by AdamW
  StateTypes types;
  std::vector<std::size_t> parameters;  // indices into Graph::parameters, in the order of memory
  std::vector<std::int64_t> sizes;      // elements of each on a rank before ZeRO, padding and repeated heads included
  RankGroup shards;                     // the ranks that share it under ZeRO
  std::int64_t joined = 1;              // slices that a rank joins for use (Mesh::expert_joined)
  // 0 without ranks to shard over. Of frozen parameters 3 or 0: there are no states that lower stages would shard.
  std::int64_t zero_stage = 0;
  // Whether the device keeps what memory.offload takes of other stages (memory.offload.resident_stages). What several
  // ranks of a pipeline hold does not stay: all of its copies are updated in the same place.
  bool stays = false;

  // Whether gradients are reduced at the end of a step rather than where the schedule reduces those of their stage:
  // ranks of a pipeline add to what they share at different times; gradients that every rank keeps whole (of experts
  // without ranks to shard over) would be summed again by a second reduction; and FP8 gradients are rounded once per
  // step, of their sum over all micro-batches, where a schedule that reduces after some of them would round each time.
  bool is_reduced_last(const ScheduleShape& shape) const {
    const bool is_whole = shape.reduces && shape.sharding() >= 2 && !splits_gradients();
    return is_shared() || is_whole || accumulates_step(shape);
  }
  // Whether it keeps the whole sums of a step, in the accumulator's type, although the schedule reduces more often.
  bool accumulates_step(const ScheduleShape& shape) const {
    return types.accumulator && zero_stage >= 2 && shape.reduces && shape.reduction_group() < shape.micro_batches;
  }

  // Whether ranks own parts of the gradients: not of a shard that no other rank has a part of, whose weights come from
  // the host.
  bool splits_gradients() const { return zero_stage >= 2 && (joined > 1 || shards.ranks > 1); }

  // Whether several ranks of the pipeline hold them, of which that of the first reader counts them.
  bool is_shared() const { return !readers.empty(); }
  bool counts_on(std::size_t stage) const { return !is_shared() || stage == readers.front(); }

  std::int64_t elements() const;
  FlatShards flat() const { return {elements(), zero_stage > 0 ? shards.ranks : 1}; }
  // Elements that are reduced or gathered together, and those of a rank's shard, including padding. Tensors are cut
  // wherever a shard ends, also those with scales, on which ranks agree.
  std::int64_t whole() const { return joined * flat().padded(); }
  std::int64_t shard() const { return flat().part(); }
};

// The ranks that gather the weights of such states and scatter their gradients: those that share ZeRO's shards, of
// experts with those of the slices that a rank joins.
RankGroup gathering_group(const Mesh& mesh, StateGroup::Kind kind);
// The effective ZeRO stage of such states, frozen ones apart: 0 without ranks to shard over, unless shards are on the
// host (memory.offload.weights), from where they are brought in for use. Where a run switches between splits of the
// experts' products, their states stay as they are: the split in which ranks gather most decides, also for a step whose
// own split gathers from no one.
std::int64_t effective_zero_stage(const Recipe& recipe, const Mesh& mesh, StateGroup::Kind kind);

// The non-empty groups that each of the stages holds, those that ranks of the pipeline share first.
std::vector<std::vector<StateGroup>> state_groups(const Recipe& recipe, const Graph& graph, const Mesh& mesh,
                                                  std::span<const Stage> stages);

}  // namespace llmtrain

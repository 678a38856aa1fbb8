// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// The instructions of a step, as data: the simulator prices them and the runner executes them.
enum class Operation : std::uint8_t {
  forward,
  backward,
  send_activation,
  receive_activation,
  send_gradient,
  receive_gradient,
  gather_weights,
  free_weights,
  reduce_gradients,
  evict_gradients,
  optimizer_step,
};

struct Instruction {
  Operation operation{};
  std::int32_t stage = -1;  // -1: the whole rank (optimizer_step, unless it updates a stage alone)
  std::int32_t micro = -1;  // micro-batch of the step, -1 for none
  std::int32_t peer = -1;   // pipeline rank at the other end of a transfer, -1 for none

  bool operator==(const Instruction&) const = default;
};

// One line with the operation and the fields that are not -1: "Forward stage 2 micro 0", "SendActivation stage 2 micro
// 0 peer 1", "OptimizerStep".
std::string to_text(const Instruction& instruction);

struct RankSchedule {
  std::vector<Instruction> instructions;
};

// One newline-terminated line per instruction.
std::string to_text(const RankSchedule& schedule);

struct ScheduleShape {
  PipelineSchedule kind = PipelineSchedule::breadth_first;
  std::int32_t pipeline = 1;  // ranks
  std::int32_t loops = 1;     // stages on each rank; stage i lives on rank i mod pipeline
  std::int32_t micro_batches = 1;
  std::int32_t zero_stage = 0;    // 0 to 3
  bool reduces = false;           // several ranks hold the same parameters
  bool fetches = false;           // the host has ZeRO-3's shards, which are gathered also where no other rank has one
  bool updates_by_stage = false;  // each stage is updated as soon as its gradients are final
  bool evicts_gradients = false;  // each stage's leave for the host as soon as they are; not beside updates_by_stage
  std::int32_t resident_stages = 0;  // the last ones of each rank, whose gradients are not evicted
  // The first stages, in which nothing is trained: their backwards compute nothing.
  std::int32_t frozen_stages = 0;

  std::int32_t stages() const { return pipeline * loops; }
  bool has_backward(std::int32_t stage) const { return stage >= frozen_stages; }
  // Whether the gradients of what crosses the cut before the stage do, too.
  bool sends_gradients(std::int32_t stage) const { return stage > frozen_stages; }
  // The effective ZeRO stage: 0 without ranks or a host to shard over.
  std::int32_t sharding() const { return reduces || fetches ? zero_stage : 0; }
  // Whether something is done with a stage's gradients as soon as they are final.
  bool completes_stages() const { return updates_by_stage || evicts_gradients; }
  bool completes(std::int32_t stage) const { return updates_by_stage || evicts(stage); }
  bool evicts(std::int32_t stage) const { return evicts_gradients && !is_resident(stage); }
  bool is_resident(std::int32_t stage) const { return stage / pipeline >= loops - resident_stages; }
  // Whether whole weights, of which each rank updates its shard, are gathered after that.
  bool gathers_updates() const { return sharding() == 1 || sharding() == 2; }
  // Micro-batches that a stage processes per gather of its weights: all (breadth_first, gpipe), as many as ranks
  // (interleaved over more than one rank), or one, like ordinary FSDP.
  std::int32_t gather_group() const;
  // Micro-batches whose gradients are accumulated before they are reduced: gather_group() if gradients are sharded
  // (ZeRO-2 and -3), else all of the step.
  std::int32_t reduction_group() const { return sharding() >= 2 ? gather_group() : micro_batches; }
};

struct Schedule {
  ScheduleShape shape;
  std::vector<RankSchedule> ranks;  // by pipeline rank
};

// The instructions of every pipeline rank for one step. The order of the passes:
//   gpipe          all forwards, then all backwards (Huang et al., arXiv 1811.06965);
//   1f1b           pipeline − rank − 1 forwards, then one forward and one backward in turn (Narayanan et al., arXiv
//                  2104.04473, section 2.2.1);
//   interleaved    depth first: as many micro-batches as ranks through each of the rank's stages, after a warm-up of
//                  2 · (pipeline − rank − 1) + (loops − 1) · pipeline forwards (ibid., section 2.2.2); 1f1b with one
//                  loop;
//   breadth_first  all micro-batches through a stage before the next one, and back through the stages in reverse
//                  (Lamy-Poirier, arXiv 2211.05953, section 3).
// On one rank 1f1b and interleaved finish one micro-batch, forward and backward, before the next. Every schedule runs
// the backwards of a stage in micro-batch order, so that all accumulate a parameter's gradients in the same order.
//
// Between ranks, a receive precedes the pass that needs its tensor and a send follows the pass that computes it;
// activations and gradients use separate channels. ZeRO-3 gathers a stage's weights before use and frees them after it,
// once in each direction per gather_group(); the gather is issued one stage ahead of its use, never with more than two
// stages gathered, and a stage is freed before it is gathered again. Gradients are reduced after the last backward of
// each reduction_group(). At ZeRO-1 and -2 the updated weights of each stage are gathered after OptimizerStep.
//
// With updates_by_stage an OptimizerStep of each stage follows its last backward or, where ranks reduce, the next
// stage's reduction, which runs meanwhile, and is followed by the stage's gather at ZeRO-1 and -2 (Lv et al., arXiv
// 2306.09782, section 3.1, update one parameter after another). The OptimizerStep of the rank then ends the step. With
// evicts_gradients an EvictGradients of each stage, but the resident ones, is in the same places, and all are updated
// at the end (Ren et al., arXiv 2101.06840, section 4.1).
//
// Of frozen stages Backward marks where a micro-batch ends: it takes no gradient, reads no weights and sends nothing.
//
// Throws Error(internal_error) if the schedule does not allow the shape (core/recipe/pipeline_schedules.h).
Schedule make_schedule(const ScheduleShape& shape);

// Proves that the schedule runs by executing all ranks on tokens in place of tensors. Each rank has two first-in,
// first-out channels to its neighbours, for activations and for gradients: a send waits while `buffers` tensors (at
// least 1) of its channel have not been received, a receive waits for its tensor. With as many buffers as micro-batches
// no send waits. Proves that
//   - every rank reaches its end: no deadlock, and no tensor is left in a channel;
//   - each receive takes the tensor that was sent for it: same stage, micro-batch and neighbour;
//   - each stage runs each micro-batch once forward and once backward, the backwards in order;
//   - each pass runs after its input has arrived and, at ZeRO-3, with its weights gathered;
//   - at ZeRO-3 at most two stages are gathered at once, none without use, all freed before OptimizerStep;
//   - at ZeRO-1 and -2 each stage is gathered once after its OptimizerStep;
//   - the gradients of every reduction_group() are reduced once, before the next group's first backward;
//   - with updates_by_stage each stage is updated once, after all of its backwards and reductions, and else none;
//   - with evicts_gradients each stage's gradients, but the resident ones', are evicted once, after the same, and else
//     none;
//   - the rank's OptimizerStep comes once, after all of that.
// Throws Error(internal_error) that names the first wrong instruction by rank, index and text, and the broken rule.
// Takes time and memory linear in the number of instructions.
void check(const Schedule& schedule, std::int32_t buffers);

// Its passes: the instructions Forward and Backward of a pipeline rank in that order. The shape must be valid.
std::vector<Instruction> pass_order(const ScheduleShape& shape, std::int32_t rank);

// The maximum number of forward passes whose backward is outstanding on a pipeline rank: micro-batches in flight,
// summed over its stages.
double passes_in_flight(const ScheduleShape& shape, std::int32_t rank);

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/graph/loss_term.h"
#include "core/graph/routing_sums.h"
#include "core/model/layers/fp8_statistics.h"
#include "core/model/pass/pass_context.h"
#include "core/recipe/step_shapes.h"
#include "parallel/engine/local_model.h"
#include "parallel/engine/stage_exchange.h"
#include "parallel/layout/scalar_table.h"
#include "parallel/schedule/schedule.h"
#include "parallel/shard/states/tensor_scales.h"
#include "parallel/shard/step_scalars.h"

namespace llmtrain {

struct StepResult {
  // The sum of the terms of rows in the global batch, each times its coefficient, without those that routers raise. A
  // decoder's is the mean over the tokens that count.
  double loss = 0;
  std::vector<LossValue> terms{};  // these terms
  double gradient_norm = 0;        // before clipping
  double learning_rate = 0;
  bool skipped = false;  // the gradient norm was not finite, or a spike; the weights are unchanged
  std::optional<Spike> spike{};
  double loss_scale = 1;        // that the backward had, with fp16
  bool lowers_scale = false;    // the update was skipped to lower it
  bool stop_requested = false;  // by any rank: all ranks continue or all stop
  SaturatedSums saturated{};    // of FP8 gradients: of all parameters that have them
  // How long each rank took from the step's start to its gradients' norm, without the time in which it waited for
  // others.
  std::vector<double> own_seconds{};
  // What all ranks' casts to FP8 lost, in the order of Fp8Tensors; empty in a step whose row has none
  // (log.fp8_statistics).
  std::vector<Fp8Representation> fp8{};
  // The products, and the gradients of matrices alone, that leave FP8 from the next step on.
  std::vector<Fp8History::Fallback> fallbacks{};
  std::vector<GradientFallback::Fallback> gradient_fallbacks{};
  RoutingCounts chosen{};  // with log.routing, by all tokens of the global batch; else empty
  RoutingSums routing{};   // over all layers with experts and all micro-batches; its losses are not in `loss`
};

// Whether this rank has been asked to stop after the step.
enum class StopRequest { none, stop };

// Executes a rank's schedule: its instructions, in their order, and nothing else. On a GPU the host enqueues a step's
// work and waits for it once, before the update: what decides about that (losses, the gradients' norm, overflows) is
// read there together, and the update and what follows it are enqueued while the host goes on to the next step. Layers
// whose experts exchange rows, or have no grouped kernel, wait for the numbers of rows, too (core/model/moe).
class Runner {
 public:
  // The model must outlive the runner.
  explicit Runner(LocalModel& model);

  // One training step on this rank's part of the global batch, with as many micro-batches as its shape has; `step`
  // counts from 0. Collective: all ranks call it together; blocks.
  StepResult step(std::span<const PassInput> micros, std::int64_t step, StopRequest stop = StopRequest::none);

  // The shapes of the recipe's steps.
  const StepShapes& shapes() const { return shapes_; }

  // Called for each instruction before it is executed.
  using Observer = std::function<void(const Instruction&)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }

 private:
  void take_schedule();
  void execute(const Instruction& instruction);
  void forward(std::size_t stage, std::size_t micro);
  void backward(std::size_t stage, std::size_t micro);
  void gather_weights(std::size_t stage);
  void reduce_gradients(std::size_t stage);
  void finish_reduction(std::size_t stage);
  double learning_rate() const;
  at::Tensor squares_of(const ParameterUnit& unit) const;
  std::vector<const ParameterUnit*> complete(std::size_t stage);
  void update_stage(std::size_t stage);
  void evict_gradients(std::size_t stage);
  void finish_eviction();
  void optimizer_step();
  void combine_ranks(StepScalars& scalars);
  void add_losses(StepScalars& scalars) const;
  void add_routing(StepScalars& scalars);
  void add_saturated(StepScalars& scalars);
  void add_tuned_times(StepScalars& scalars) const;
  void take_losses(const StepScalars& scalars);
  void take_results(const StepScalars& scalars);
  void record_overflows(const StepScalars& scalars);
  void start_tuners();
  void end_tuners(const StepScalars& scalars);

  LocalModel& model_;
  const Recipe& recipe_;
  StepShapes shapes_;
  ScalarTable declared_;  // of a step
  Observer observer_;
  std::int64_t scheduled_batch_;  // the global batch whose instructions these are
  RankSchedule schedule_;

  std::span<const PassInput> micros_;
  StageExchange exchange_;
  std::vector<LocalModel::FreeAfter> last_pass_;  // of each stage
  std::optional<std::size_t> reducing_;           // the stage whose reduction is in progress
  std::optional<std::size_t> evicting_;           // the stage whose gradients are on their way to the host
  // Units whose stage has been updated or evicted, with the squares of their gradients, of which the norm is made.
  std::unordered_map<const ParameterUnit*, at::Tensor> completed_;
  // By term of rows, of each micro-batch the sum over its rows, on the device; undefined on ranks without the block.
  std::vector<std::vector<at::Tensor>> losses_;
  std::int64_t step_ = 0;
  StopRequest stop_ = StopRequest::none;
  Clock::time_point start_;   // of the step
  double waited_before_ = 0;  // seconds of waiting for other ranks, before the step
  StepResult result_;
};

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/runner.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "core/base/elapsed_time.h"
#include "core/base/error.h"
#include "core/optim/learning_rate.h"
#include "core/optim/optimizer.h"
#include "parallel/device/profiler_range.h"
#include "parallel/device/step_arena.h"
#include "parallel/device/tensor_fault.h"
#include "parallel/layout/declared_scalars.h"

namespace llmtrain {
namespace {

using FreeAfter = LocalModel::FreeAfter;
using Channel = StageExchange::Channel;

// The gradient of one of the stage's parameters, as far as this rank has computed it; none where nothing is trained.
at::Tensor some_gradient(LocalModel::StageState& stage) {
  for (const ParameterUnit& unit : stage.units) {
    ParameterStore& store = unit.parameters->seen();
    const std::size_t first = store.ranges().front().parameter;
    if (store.is_frozen(first)) continue;
    const at::Tensor gradient = store.written_gradient(first);
    if (gradient.defined()) return gradient;
  }
  return {};
}

}  // namespace

Runner::Runner(LocalModel& model)
    : model_(model),
      recipe_(model.recipe()),
      shapes_(recipe_),
      declared_(declared_scalars(model.layout().partition())),
      scheduled_batch_(recipe_.batch.global),
      schedule_(model.schedule()),
      exchange_(model) {}

StepResult Runner::step(std::span<const PassInput> micros, std::int64_t step, StopRequest stop) {
  // Gradients are our own work, so LibTorch need not remember what is a view of what and how often it was written. For
  // small tensors that takes a twentieth of a step, and more where ranks are threads.
  const at::AutoDispatchBelowADInplaceOrView without_autograd;
  micros_ = micros;
  step_ = step;
  stop_ = stop;
  start_ = Clock::now();
  waited_before_ = model_.groups().communicator().log().waited_seconds();
  // One slot per micro-batch: summed in their order at the end, the loss does not depend on the schedule.
  losses_.assign(model_.graph().row_losses().size(), std::vector<at::Tensor>(micros.size()));
  exchange_.start(model_.stage_count(), micros.size());
  // free_weights carries no direction; the last pass of the stage determines which one it follows.
  last_pass_.assign(model_.stage_count(), FreeAfter::forward);
  for (const ParameterUnit* unit : model_.units()) unit->parameters->start_step();
  completed_.clear();
  start_tuners();
  take_schedule();
  Communicator& communicator = model_.groups().communicator();
  const at::Tensor grown = grown_memory(communicator.rank(), step + 1, model_.device());
  for (const Instruction& instruction : schedule_.instructions) {
    if (observer_) observer_(instruction);
    const std::string text = to_text(instruction);
    communicator.log().set_activity(step + 1, text);
    const ProfilerRange range(text);
    StepArena::begin_section();
    execute(instruction);
  }
  // Sent tensors are released here at the latest, and the weights gathered after the update have arrived, so that
  // evaluation and checkpoints can follow.
  exchange_.finish();
  for (const ParameterUnit* unit : model_.units()) unit->parameters->finish_gather();
  return result_;
}

// The instructions of this step's global batch.
void Runner::take_schedule() {
  const std::int64_t batch = shapes_.at(step_).global_batch;
  if (batch == scheduled_batch_) return;
  const auto rank = static_cast<std::size_t>(model_.groups().pipeline.position());
  schedule_ = model_.layout().of_batch(batch).schedule().ranks[rank];
  scheduled_batch_ = batch;
}

void Runner::execute(const Instruction& instruction) {
  const auto stage = static_cast<std::size_t>(instruction.stage), micro = static_cast<std::size_t>(instruction.micro);
  switch (instruction.operation) {
    case Operation::forward:
      return forward(stage, micro);
    case Operation::backward:
      return backward(stage, micro);
    case Operation::send_activation:
      return exchange_.send(Channel::activations, stage + 1, micro, instruction.peer);
    case Operation::receive_activation:
      return exchange_.receive(Channel::activations, stage, micro, micros_[micro].batch, instruction.peer);
    case Operation::send_gradient:
      return exchange_.send(Channel::gradients, stage - 1, micro, instruction.peer);
    case Operation::receive_gradient:
      return exchange_.receive(Channel::gradients, stage, micro, micros_[micro].batch, instruction.peer);
    case Operation::gather_weights:
      return gather_weights(stage);
    case Operation::free_weights:
      return model_.free(stage, last_pass_[stage]);
    case Operation::reduce_gradients:
      return reduce_gradients(stage);
    case Operation::evict_gradients:
      return evict_gradients(stage);
    case Operation::optimizer_step:
      return instruction.stage < 0 ? optimizer_step() : update_stage(stage);
  }
  throw Error(ExitCode::internal_error, "the runner cannot execute \"" + to_text(instruction) + "\"");
}

void Runner::forward(std::size_t stage, std::size_t micro) {
  fault_point(FaultPlace::forward, model_.groups().communicator().rank(), step_ + 1);
  model_.finish_gather(stage);
  Tensors incoming = exchange_.take(Channel::activations, stage, micro);
  StagePasses::Output output = model_.stage(stage).passes->forward(
      std::move(incoming), static_cast<std::int64_t>(micro), micros_[micro].batch, micros_[micro].context);
  last_pass_[stage] = FreeAfter::forward;
  // Read with the step's other numbers.
  for (const LossRows& losses : output.losses) losses_[losses.term][micro] = losses.rows.sum(at::kDouble);
  if (!model_.is_last(stage)) exchange_.put(Channel::activations, stage + 1, micro, std::move(output.values));
}

void Runner::backward(std::size_t stage, std::size_t micro) {
  const ScheduleShape& shape = model_.layout().partition().shape;
  if (!shape.has_backward(static_cast<std::int32_t>(stage))) return;
  model_.finish_gather(stage);
  Tensors of_outgoing = exchange_.take(Channel::gradients, stage, micro);
  Tensors of_incoming = model_.stage(stage).passes->backward(std::move(of_outgoing), static_cast<std::int64_t>(micro),
                                                             micros_[micro].batch, micros_[micro].context);
  last_pass_[stage] = FreeAfter::backward;
  tensor_fault_point(FaultPlace::gradients, model_.groups().communicator().rank(), step_ + 1,
                     some_gradient(model_.stage(stage)));
  if (shape.sends_gradients(static_cast<std::int32_t>(stage)))
    exchange_.put(Channel::gradients, stage - 1, micro, std::move(of_incoming));
}

void Runner::gather_weights(std::size_t stage) {
  model_.gather(stage);
  if (!recipe_.parallel.overlap) model_.finish_gather(stage);
}

void Runner::reduce_gradients(std::size_t stage) {
  // One reduction at a time: each holds its stage's whole gradients until it is done.
  if (reducing_) finish_reduction(*reducing_);
  for (const ParameterUnit& unit : model_.stage(stage).units)
    if (!unit.is_reduced_last) unit.parameters->reduce();
  reducing_ = stage;
  if (!recipe_.parallel.overlap) finish_reduction(stage);
}

void Runner::finish_reduction(std::size_t stage) {
  for (const ParameterUnit& unit : model_.stage(stage).units) unit.parameters->finish_reduction();
}

double Runner::learning_rate() const {
  const LearningRateRecipe& rate = recipe_.training.learning_rate;
  return learning_rate_at(rate, schedule_position(rate, shapes_, step_));
}

at::Tensor Runner::squares_of(const ParameterUnit& unit) const {
  const auto completed = completed_.find(&unit);
  return completed == completed_.end() ? unit.parameters->squares() : completed->second;
}

// The gradients of a stage's units, but for those that wait for other ranks of the pipeline, are final from here on.
std::vector<const ParameterUnit*> Runner::complete(std::size_t stage) {
  std::vector<const ParameterUnit*> units = model_.units_final_with(stage);
  for (const ParameterUnit* unit : units) {
    unit->parameters->collect();
    completed_.emplace(unit, unit->parameters->squares());
  }
  if (reducing_ == stage) reducing_.reset();
  return units;
}

// Nothing is known of other stages' gradients yet: the update can neither be clipped nor left out.
void Runner::update_stage(std::size_t stage) {
  model_.reclaim_states();
  for (const ParameterUnit* unit : complete(stage)) {
    unit->parameters->update(learning_rate(), 1, model_.loss_scale().updates(step_));
    unit->parameters->free_gradients();
  }
}

// One stage's leave beside the passes of the next one: their memory is there for those of the stage behind it.
void Runner::evict_gradients(std::size_t stage) {
  finish_eviction();
  for (const ParameterUnit* unit : complete(stage)) unit->parameters->evict_gradients();
  evicting_ = stage;
}

void Runner::finish_eviction() {
  if (!evicting_) return;
  model_.gradient_eviction()->finish();
  for (const ParameterUnit* unit : model_.units_final_with(*std::exchange(evicting_, std::nullopt)))
    unit->parameters->free_gradients();
}

void Runner::optimizer_step() {
  finish_eviction();
  // The ranks of a pipeline that share parameters are here only after all of their passes.
  for (const ParameterUnit* unit : model_.units_reduced_last()) unit->parameters->reduce();
  model_.release_copies();
  StepScalars scalars(declared_);
  for (const ParameterUnit* unit : model_.units()) {
    // Waits for the last reduction and adds the tensor ranks' sums: gradients are final from here on.
    if (!completed_.contains(unit)) unit->parameters->collect();
    if (model_.counts(*unit)) scalars.add(scalar_names::gradient_squares, squares_of(*unit));
    unit->parameters->bring_saturated(scalars);
  }
  reducing_.reset();
  combine_ranks(scalars);
  result_.learning_rate = learning_rate();
  // An overflow anywhere makes the global norm infinite or NaN, so all ranks skip the same steps.
  const bool has_overflowed = !std::isfinite(result_.gradient_norm);
  result_.spike = has_overflowed ? std::nullopt : model_.spikes().update(result_.loss, result_.gradient_norm);
  result_.skipped = has_overflowed || result_.spike.has_value();
  result_.loss_scale = micros_.front().context.backward_scale;
  result_.lowers_scale = model_.loss_scale().update(has_overflowed);
  result_.fallbacks.clear();
  result_.gradient_fallbacks.clear();
  // Numbers that are not finite say nothing of the next step's.
  if (!has_overflowed) record_overflows(scalars);
  if (result_.skipped) return;
  model_.reclaim_states();
  // Applied inside the update, which saves a pass over the gradients.
  const double coefficient =
      clipping_coefficient(result_.gradient_norm, recipe_.training.clip_norm) / result_.loss_scale;
  for (const ParameterUnit* unit : model_.units_updated_last())
    unit->parameters->update(result_.learning_rate, coefficient, model_.loss_scale().updates(step_));
}

void Runner::record_overflows(const StepScalars& scalars) {
  if (Fp8History* history = model_.fp8_history())
    result_.fallbacks = history->record(scalars.numbers(scalar_names::fp8_magnitudes));
  if (GradientFallback* gradients = model_.gradient_fallback())
    result_.gradient_fallbacks = gradients->record(scalars.numbers(scalar_names::saturated_shares));
}

void Runner::add_losses(StepScalars& scalars) const {
  // Tensor ranks have the same losses: those of one count.
  if (model_.groups().tensor.position() != 0) return;
  for (std::size_t term = 0; term < losses_.size(); ++term)
    for (const at::Tensor& loss : losses_[term])
      if (loss.defined()) scalars.add(scalar_names::loss(model_.graph().losses[term]), loss);
}

// What the passes found of experts, of all stages of this rank.
void Runner::add_routing(StepScalars& scalars) {
  if (!recipe_.model.moe) return;
  // Ranks that share a micro-batch's tokens have counted all of them.
  const bool counts_here = model_.groups().tensor.position() == 0 && model_.groups().context.position() == 0;
  for (const std::size_t stage : model_.held_stages()) {
    StagePasses& passes = *model_.stage(stage).passes;
    if (const at::Tensor sums = passes.take_routing(); sums.defined()) scalars.add(scalar_names::routing, sums);
    if (!recipe_.log.routing) continue;
    const std::vector<at::Tensor> chosen = passes.take_chosen();
    for (std::int64_t layer = 0; counts_here && layer < recipe_.model.layers; ++layer)
      if (const at::Tensor& tokens = chosen[static_cast<std::size_t>(layer)]; tokens.defined())
        scalars.add(scalar_names::chosen_experts(layer), tokens);
  }
}

// Counts on this rank's stages, once the scalars are read. All data and tensor ranks have the same: one counts.
void Runner::add_saturated(StepScalars& scalars) {
  if (GradientFallback* gradients = model_.gradient_fallback())
    scalars.add(scalar_names::saturated_shares, gradients->take_shares());
  if (model_.groups().data.position() != 0 || model_.groups().tensor.position() != 0) return;
  for (const ParameterUnit* unit : model_.units()) {
    const TensorScales* scales = unit->parameters->scales();
    if (scales == nullptr || !model_.counts(*unit)) continue;
    scalars.add(scalar_names::fp8_gradients, scales->saturated().elements);
    scalars.add(scalar_names::saturated_gradients, scales->saturated().saturated);
  }
}

// Decide how the step's experts are split and exchange rows.
void Runner::start_tuners() {
  const MixtureParallel& mixture = model_.groups().mixture;
  if (SplitTuner* tuner = mixture.split_tuner()) {
    tuner->start_step(step_);
    mixture.splits()->use(tuner->current());
  }
  if (ExchangeTuner* tuner = mixture.tuner()) tuner->start_step(step_);
}

// What this rank has measured for them.
void Runner::add_tuned_times(StepScalars& scalars) const {
  const MixtureParallel& mixture = model_.groups().mixture;
  if (mixture.tuner() != nullptr) scalars.add(scalar_names::expert_exchanges, mixture.tuner()->measured());
  if (mixture.split_tuner() != nullptr) scalars.add(scalar_names::split_seconds, seconds_since(start_));
}

void Runner::end_tuners(const StepScalars& scalars) {
  const MixtureParallel& mixture = model_.groups().mixture;
  SplitTuner* const splits = mixture.split_tuner();
  // Exchanges are compared once the split stays: their times depend on it.
  const bool stays = splits == nullptr || splits->is_final();
  if (mixture.tuner() != nullptr && stays) mixture.tuner()->end_step(scalars.numbers(scalar_names::expert_exchanges));
  if (splits != nullptr)
    splits->end_step(scalars.number(scalar_names::split_seconds) / model_.groups().communicator().size());
}

// Reads this rank's scalars, the step's one wait for a GPU, and exchanges them with all ranks, so that all stop after
// the same step and exchange alike in the next one.
void Runner::combine_ranks(StepScalars& scalars) {
  add_losses(scalars);
  add_routing(scalars);
  if (Fp8History* history = model_.fp8_history()) scalars.add(scalar_names::fp8_magnitudes, history->take_largest());
  scalars.read();
  scalars.add(scalar_names::stop_request, stop_ == StopRequest::stop ? 1.0 : 0.0);
  const double waited = model_.groups().communicator().log().waited_seconds() - waited_before_;
  // Without waits, which the rank that is waited for causes: what is left shows who is slow.
  scalars.add(scalar_names::own_seconds, seconds_since(start_) - waited);
  add_saturated(scalars);
  add_tuned_times(scalars);
  scalars.exchange(model_.groups());
  take_results(scalars);
  end_tuners(scalars);
}

void Runner::take_losses(const StepScalars& scalars) {
  result_.loss = 0;
  result_.terms.clear();
  for (std::size_t index = 0; index < losses_.size(); ++index) {
    const LossTerm& term = model_.graph().losses[index];
    const double weighed = scalars.number(scalar_names::loss(term)) * micros_.front().context.loss_factor(index);
    result_.loss += weighed;
    result_.terms.push_back({term.name, weighed / term.coefficient});
  }
}

void Runner::take_results(const StepScalars& scalars) {
  take_losses(scalars);
  // The gradients still have the factor of the loss scale, by which only the update divides them.
  const double norm = std::sqrt(scalars.number(scalar_names::gradient_squares));
  result_.gradient_norm = norm / micros_.front().context.backward_scale;
  result_.stop_requested = scalars.number(scalar_names::stop_request) > 0;
  result_.own_seconds = scalars.numbers(scalar_names::own_seconds);
  if (scalars.has(scalar_names::routing)) {
    RoutingValues routing;
    std::ranges::copy(scalars.numbers(scalar_names::routing), routing.begin());
    result_.routing = sums_of(routing);
  }
  if (scalars.has(scalar_names::fp8_gradients))
    result_.saturated = {scalars.number(scalar_names::fp8_gradients),
                         scalars.number(scalar_names::saturated_gradients)};
  if (!recipe_.log.routing) return;
  result_.chosen.assign(static_cast<std::size_t>(recipe_.model.layers), {});
  for (std::int64_t layer = 0; layer < recipe_.model.layers; ++layer)
    if (const std::string name = scalar_names::chosen_experts(layer); scalars.has(name))
      result_.chosen[static_cast<std::size_t>(layer)] = scalars.numbers(name);
}

}  // namespace llmtrain

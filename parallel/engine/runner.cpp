// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/runner.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "core/base/elapsed_time.h"
#include "core/base/error.h"
#include "core/optim/optimizer.h"
#include "parallel/device/profiler_range.h"
#include "parallel/device/tensor_fault.h"
#include "parallel/device/transfers.h"
#include "parallel/layout/layout.h"

namespace llmtrain {
namespace {

using FreeAfter = LocalModel::FreeAfter;
using Channel = StageExchange::Channel;

// The counts by layer, from those of all layers with experts.
RoutingCounts by_layer(const ModelRecipe& model, std::vector<double>::const_iterator next) {
  RoutingCounts result(static_cast<std::size_t>(model.layers));
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (!has_experts(model, layer)) continue;
    const auto end = next + static_cast<std::ptrdiff_t>(model.moe->experts);
    result[static_cast<std::size_t>(layer)].assign(next, end);
    next = end;
  }
  return result;
}

// Of the numbers from the `first` on that each rank has sent, which are `count` together, the largest of any rank.
std::vector<double> largest_from(const std::vector<double>& all, std::size_t first, std::size_t count) {
  std::vector<double> largest(count - first, 0);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (const std::size_t place = i % count; place >= first)
      largest[place - first] = std::max(largest[place - first], all[i]);
  return largest;
}

// Of a parameter of the stage, as far as this rank has computed it; none where nothing is trained.
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

Runner::Runner(LocalModel& model) : model_(model), recipe_(model.recipe()), shapes_(recipe_), exchange_(model) {}

StepResult Runner::step(std::span<const PassInput> micros, std::int64_t step, StopRequest stop) {
  // Gradients are our own work, so LibTorch need not remember what is a view of what and how often it was written. For
  // small tensors that takes a twentieth of a step, and more where ranks are threads.
  const at::AutoDispatchBelowADInplaceOrView without_autograd;
  micros_ = micros;
  step_ = step;
  stop_ = stop;
  start_ = Clock::now();
  waited_before_ = model_.groups().communicator().log().waited_seconds();
  // One slot per micro-batch: summed in their order at the end, the loss does not depend on the schedule. None of them
  // is set on ranks without the last stage.
  losses_.assign(micros.size(), at::Tensor());
  exchange_.start(model_.stage_count(), micros.size());
  // free_weights carries no direction; the last pass of the stage determines which one it follows.
  last_pass_.assign(model_.stage_count(), FreeAfter::forward);
  for (const ParameterUnit* unit : model_.units()) unit->parameters->start_step();
  start_tuners();
  Communicator& communicator = model_.groups().communicator();
  for (const Instruction& instruction : model_.schedule().instructions) {
    if (observer_) observer_(instruction);
    const std::string text = to_text(instruction);
    communicator.log().set_activity(step + 1, text);
    const ProfilerRange range(text);
    execute(instruction);
  }
  // Sent tensors are released here at the latest, and the weights gathered after the update have arrived, so that
  // evaluation and checkpoints can follow.
  exchange_.finish();
  for (const ParameterUnit* unit : model_.units()) unit->parameters->finish_gather();
  return result_;
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
      return exchange_.receive(Channel::activations, stage, micro, micros_[micro].batch.sequences().rows(),
                               instruction.peer);
    case Operation::send_gradient:
      return exchange_.send(Channel::gradients, stage - 1, micro, instruction.peer);
    case Operation::receive_gradient:
      return exchange_.receive(Channel::gradients, stage, micro, micros_[micro].batch.sequences().rows(),
                               instruction.peer);
    case Operation::gather_weights:
      return gather_weights(stage);
    case Operation::free_weights:
      return model_.free(stage, last_pass_[stage]);
    case Operation::reduce_gradients:
      return reduce_gradients(stage);
    case Operation::optimizer_step:
      return optimizer_step();
  }
  throw Error(ExitCode::internal_error, "the runner cannot execute \"" + to_text(instruction) + "\"");
}

void Runner::forward(std::size_t stage, std::size_t micro) {
  fault_point(FaultPlace::forward, model_.groups().communicator().rank(), step_ + 1);
  model_.finish_gather(stage);
  at::Tensor input = exchange_.take(Channel::activations, stage, micro);
  at::Tensor output = model_.stage(stage).passes->forward(std::move(input), static_cast<std::int64_t>(micro),
                                                          micros_[micro].batch, micros_[micro].context);
  last_pass_[stage] = FreeAfter::forward;
  if (model_.is_last(stage)) {
    losses_[micro] = output.sum(at::kDouble);  // read with the step's other numbers
  } else {
    exchange_.put(Channel::activations, stage + 1, micro, std::move(output));
  }
}

void Runner::backward(std::size_t stage, std::size_t micro) {
  model_.finish_gather(stage);
  at::Tensor of_output = exchange_.take(Channel::gradients, stage, micro);
  at::Tensor of_input = model_.stage(stage).passes->backward(std::move(of_output), static_cast<std::int64_t>(micro),
                                                             micros_[micro].batch, micros_[micro].context);
  last_pass_[stage] = FreeAfter::backward;
  tensor_fault_point(FaultPlace::gradients, model_.groups().communicator().rank(), step_ + 1,
                     some_gradient(model_.stage(stage)));
  if (stage > 0) exchange_.put(Channel::gradients, stage - 1, micro, std::move(of_input));
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

void Runner::optimizer_step() {
  for (const ParameterUnit* unit : model_.units())
    // Both ends of the pipeline are here only after all of their passes.
    if (unit->is_reduced_last) unit->parameters->reduce();
  std::vector<at::Tensor> squares;
  for (const ParameterUnit* unit : model_.units()) {
    // Waits for the last reduction and adds the tensor ranks' sums: gradients are final from here on.
    unit->parameters->collect();
    if (model_.counts(*unit)) squares.push_back(unit->parameters->squares());
  }
  reducing_.reset();
  const std::vector<double> largest = combine_ranks(squares);
  const LearningRateRecipe& rate = recipe_.training.learning_rate;
  result_.learning_rate = learning_rate_at(rate, schedule_position(rate, shapes_, step_));
  // An overflow anywhere makes the global norm infinite or NaN, so all ranks skip the same steps.
  const bool has_overflowed = !std::isfinite(result_.gradient_norm);
  result_.spike = has_overflowed ? std::nullopt : model_.spikes().update(result_.loss, result_.gradient_norm);
  result_.skipped = has_overflowed || result_.spike.has_value();
  result_.loss_scale = micros_.front().context.backward_scale;
  result_.lowers_scale = model_.loss_scale().update(has_overflowed);
  result_.fallbacks.clear();
  result_.gradient_fallbacks.clear();
  // Numbers that are not finite say nothing of the next step's.
  if (!has_overflowed) record_overflows(largest);
  if (result_.skipped) return;
  model_.reclaim_states();
  // Applied inside the update, which saves a pass over the gradients.
  const double coefficient =
      clipping_coefficient(result_.gradient_norm, recipe_.training.clip_norm) / result_.loss_scale;
  for (const ParameterUnit* unit : model_.units())
    unit->parameters->update(result_.learning_rate, coefficient, model_.loss_scale().updates(step_));
}

// Of the largest magnitudes and shares of all ranks, as combine_ranks() returns them.
void Runner::record_overflows(std::span<const double> largest) {
  Fp8History* history = model_.fp8_history();
  const std::size_t magnitudes = history != nullptr ? fp8_operands * history->products().size() : 0;
  if (history != nullptr) result_.fallbacks = history->record(largest.first(magnitudes));
  if (GradientFallback* gradients = model_.gradient_fallback())
    result_.gradient_fallbacks = gradients->record(largest.subspan(magnitudes));
}

// Of all stages of this rank.
RoutingSums Runner::take_routing() {
  RoutingSums sums;
  for (const std::size_t stage : model_.held_stages()) sums += model_.stage(stage).passes->take_routing();
  return sums;
}

// Of all layers with experts, one after another; zeros where another rank counts the layer or the tokens.
std::vector<double> Runner::routing_counts() {
  const auto experts = static_cast<std::size_t>(recipe_.model.moe->experts);
  std::vector<double> counts(static_cast<std::size_t>(expert_layers(recipe_.model)) * experts, 0);
  // Ranks that share a micro-batch's tokens have counted all of them.
  const bool counts_here = model_.groups().tensor.position() == 0 && model_.groups().context.position() == 0;
  for (const std::size_t stage : model_.held_stages()) {
    const RoutingCounts layers = model_.stage(stage).passes->take_routing_counts();
    std::size_t place = 0;
    for (std::int64_t layer = 0; layer < recipe_.model.layers; ++layer) {
      if (!has_experts(recipe_.model, layer)) continue;
      const std::vector<double>& chosen = layers[static_cast<std::size_t>(layer)];
      for (std::size_t expert = 0; counts_here && expert < chosen.size(); ++expert)
        counts[place + expert] += chosen[expert];
      place += experts;
    }
  }
  return counts;
}

// Of this rank's stages. All data and tensor ranks have the same: one counts.
SaturatedSums Runner::saturated_sums() const {
  SaturatedSums sums;
  if (model_.groups().data.position() != 0 || model_.groups().tensor.position() != 0) return sums;
  for (const ParameterUnit* unit : model_.units()) {
    const TensorScales* scales = unit->parameters->scales();
    if (scales == nullptr) continue;
    sums.elements += scales->saturated().elements;
    sums.saturated += scales->saturated().saturated;
  }
  return sums;
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
std::vector<double> Runner::tuned_times() const {
  const MixtureParallel& mixture = model_.groups().mixture;
  std::vector<double> times;
  if (mixture.tuner() != nullptr) times = mixture.tuner()->measured();
  if (mixture.split_tuner() != nullptr) times.push_back(seconds_since(start_));
  return times;
}

void Runner::end_tuners(std::span<const double> sums, std::size_t ranks) {
  const MixtureParallel& mixture = model_.groups().mixture;
  SplitTuner* const splits = mixture.split_tuner();
  // Exchanges are compared once the split stays: their times depend on it.
  const bool stays = splits == nullptr || splits->is_final();
  if (mixture.tuner() != nullptr && stays) mixture.tuner()->end_step(sums.first(mixture.tuner()->measured().size()));
  if (splits != nullptr) splits->end_step(sums.back() / static_cast<double>(ranks));
}

// This rank's loss and squared norm, each summed in a fixed order. The step's one wait for a GPU.
std::pair<double, double> Runner::read_own(std::span<const at::Tensor> squares) const {
  std::vector<at::Tensor> numbers;
  std::copy_if(losses_.begin(), losses_.end(), std::back_inserter(numbers), std::mem_fn(&at::Tensor::defined));
  const std::ptrdiff_t losses = std::ssize(numbers);
  numbers.insert(numbers.end(), squares.begin(), squares.end());
  const std::vector<double> read = read_numbers(numbers);
  return {std::accumulate(read.begin(), read.begin() + losses, 0.0),
          std::accumulate(read.begin() + losses, read.end(), 0.0)};
}

// Sums loss and squared norm over all ranks. Tensor ranks have the same loss: one counts. One exchange carries the stop
// request, the routing, the saturated gradients, the times of experts' exchanges and the magnitudes of FP8 operands
// too, so that all ranks stop after the same step and exchange alike in the next one. Returns the largest of the
// magnitudes and of each matrix's share of saturated gradients.
std::vector<double> Runner::combine_ranks(std::span<const at::Tensor> squares) {
  const auto [loss, own_squares] = read_own(squares);
  const double waited = model_.groups().communicator().log().waited_seconds() - waited_before_;
  // Without waits, which the rank that is waited for causes: what is left shows who is slow.
  const double own_seconds = seconds_since(start_) - waited;
  std::vector<double> mine{model_.groups().tensor.position() == 0 ? loss : 0, own_squares,
                           stop_ == StopRequest::stop ? 1.0 : 0.0, own_seconds};
  // Only what the recipe's model and precision have.
  if (recipe_.model.moe) {
    const RoutingValues routing = values_of(take_routing());
    mine.insert(mine.end(), routing.begin(), routing.end());
  }
  if (stores_fp8(recipe_.precision.fp8_level)) {
    const SaturatedSums sums = saturated_sums();
    mine.insert(mine.end(), {sums.elements, sums.saturated});
  }
  if (recipe_.log.routing) {
    const std::vector<double> counts = routing_counts();
    mine.insert(mine.end(), counts.begin(), counts.end());
  }
  const std::size_t first_time = mine.size();
  const std::vector<double> times = tuned_times();
  mine.insert(mine.end(), times.begin(), times.end());
  // Last, because all numbers from here on are maxima and not sums over the ranks.
  const std::size_t first_largest = mine.size();
  if (Fp8History* history = model_.fp8_history()) {
    const std::vector<double> largest = history->take_largest();
    mine.insert(mine.end(), largest.begin(), largest.end());
  }
  if (GradientFallback* gradients = model_.gradient_fallback()) {
    const std::vector<double> shares = gradients->take_shares();
    mine.insert(mine.end(), shares.begin(), shares.end());
  }
  const std::vector<double> all = model_.groups().exchange(mine);
  std::vector<double> sums(mine.size());
  for (std::size_t i = 0; i < all.size(); ++i) sums[i % sums.size()] += all[i];
  result_.loss = sums[0] * micros_.front().context.loss_factor(0);
  // The gradients still have the factor of the loss scale, by which only the update divides them.
  result_.gradient_norm = std::sqrt(sums[1]) / micros_.front().context.backward_scale;
  result_.stop_requested = sums[2] > 0;
  result_.own_seconds.clear();
  for (std::size_t i = 3; i < all.size(); i += mine.size()) result_.own_seconds.push_back(all[i]);
  auto next = sums.begin() + 4;
  if (recipe_.model.moe) {
    RoutingValues routing;
    std::copy_n(next, routing.size(), routing.begin());
    result_.routing = sums_of(routing);
    next += static_cast<std::ptrdiff_t>(routing.size());
  }
  if (stores_fp8(recipe_.precision.fp8_level)) {
    result_.saturated = {*next, *(next + 1)};
    next += 2;
  }
  if (recipe_.log.routing) result_.chosen = by_layer(recipe_.model, next);
  end_tuners(std::span(sums).subspan(first_time, times.size()), all.size() / mine.size());
  return largest_from(all, first_largest, mine.size());
}

}  // namespace llmtrain

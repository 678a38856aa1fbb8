// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/training/training_loop.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "core/base/elapsed_time.h"
#include "core/base/fault_point.h"
#include "core/base/units.h"
#include "parallel/comm/agreement.h"
#include "parallel/device/profiler_range.h"
#include "parallel/engine/model_state.h"
#include "parallel/engine/replica_check.h"
#include "parallel/engine/targets/written_targets.h"

namespace llmtrain {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

TrainingLoop::TrainingLoop(const RunRequest& request, Trainer& trainer, FirstRank* first, Logger& logger,
                           ThreadMemory& memory, std::string began_from)
    : recipe_(request.recipe()),
      signals_(*request.stop),
      time_limit_(request.deadline),
      trainer_(trainer),
      first_(first),
      logger_(logger),
      began_from_(std::move(began_from)),
      memory_(request, trainer.model(), memory),
      saver_(RunDirectory::checkpoints_of(recipe_), recipe_.checkpoint, trainer.model().groups().communicator(),
             [first](const std::string& text) { first->warn(text); }),
      trace_file_(request.trace) {
  if (trace_file_) trace_.emplace(trainer, request.layout);
}

ExitCode TrainingLoop::run() {
  // Nothing has changed since the run's newest checkpoint, or there is nothing to save.
  if (any_rank(communicator(), is_asked_to_stop(longest_step_))) return say_stopped();
  const bool evaluates = recipe_.training.evaluate_every > 0;
  // The loss of the initial weights is the reference for all later ones. One that was stopped is repeated.
  if (evaluates && (trainer_.steps_done() == 0 || trainer_.evaluation_is_due()) && !evaluate()) return say_stopped();
  prepare_to_save();
  while (trainer_.steps_done() < recipe_.training.steps) {
    const bool stops = train_step();
    if (every(recipe_.launch.check_replicas_every)) compare_replicas();
    if (has_diverged()) {
      roll_back();
      continue;
    }
    const bool last = trainer_.steps_done() == recipe_.training.steps;
    // The checkpoint of a stop says whether the evaluation that this step may call for is done: a resumed run does
    // not repeat it then.
    if (((evaluates && last) || every(recipe_.training.evaluate_every)) && !evaluate()) return stop();
    // Before a request to stop: a run that ends here is done, and not to be continued.
    if (trainer_.stops_early()) break;
    if (!last && stops) return stop();
    if (!last) save_regularly();
  }
  end();
  if (first_ != nullptr) first_->finish();
  return ExitCode::done;
}

double TrainingLoop::typical_step_seconds() const {
  std::vector<double> sorted(step_seconds_.begin() + (step_seconds_.size() > 1 ? 1 : 0), step_seconds_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  // The median is robust against single slow steps, such as those beside a checkpoint.
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

// The same on all ranks, because the gradient norm is.
bool TrainingLoop::has_diverged() const {
  const std::int64_t limit = recipe_.training.skip_limit;
  return limit > 0 && trainer_.skipped().in_a_row >= limit;
}

void TrainingLoop::roll_back() {
  // A write in progress may become the newest checkpoint.
  saver_.finish();
  const SkippedUpdates& skipped = trainer_.skipped();
  const std::string what = fmt::format("step {}: {} {} times in a row", trainer_.steps_done(),
                                       reason_of_skips(recipe_.training.spikes), skipped.in_a_row);
  constexpr const char* advice =
      "lower training.learning_rate.peak, lengthen its warm-up or check the data; training.rollbacks lets a run "
      "return to its newest checkpoint and leave data out, training.skip_limit when it ends";
  if (skipped.rollbacks >= recipe_.training.rollbacks)
    throw Error(ExitCode::bad_data, what + ": the run has diverged; " + advice);
  const std::string folder = newest_checkpoint();
  if (folder.empty())
    throw Error(ExitCode::bad_data,
                what + ", and there is no checkpoint to return to: set checkpoint.every; " + advice);
  trainer_.roll_back(CheckpointReader(folder));
  if (first_ != nullptr) first_->show_rollback(what);
}

// On all ranks; empty without one.
std::string TrainingLoop::newest_checkpoint() {
  SharedVerification verification(communicator());
  std::string newest;
  if (first_ == nullptr) {
    verification.run({});
  } else {
    verification.run([&](const VerifyCheckpoint& verify) {
      if (const auto found = RunDirectory::newest_intact(recipe_, verify)) newest = found->string();
    });
  }
  return share_text(communicator(), newest);
}

// Returns whether the ranks were asked to stop.
bool TrainingLoop::train_step() {
  const bool asked = is_asked_for_a_stop();
  memory_.begin_step();
  const auto start = Clock::now();
  const StepResult result = trainer_.step(asked ? StopRequest::stop : StopRequest::none);
  // Before saving and tracing, which are not part of a step.
  step_seconds_.push_back(seconds_since(start));
  longest_step_ = std::max(longest_step_, step_seconds_.back());
  memory_.end_step();
  // At the same point of the step on all ranks, because it is collective.
  saver_.progress();
  if (trace_) trace_->end_step();
  if (first_ != nullptr) {
    first_->show(result, step_seconds_.back());
  } else {
    logger_.debug("step {}: loss {}, {}", trainer_.steps_done(), result.loss, format_duration(step_seconds_.back()));
  }
  // A request that came during the step. Several ranks must agree first, which the next step's exchange does; after the
  // first step at once, which shows what the plan of a limit did not know.
  const bool agrees = ranks() == 1 || (memory_.has_limit() && step_seconds_.size() == 1);
  return result.stop_requested || (agrees && any_rank(communicator(), is_asked_for_a_stop()));
}

bool TrainingLoop::is_asked_for_a_stop() { return is_asked_to_stop(longest_step_) || memory_.excess() > 0; }

// This rank; the next exchange tells the others. `longest`: seconds between two such questions, at most so far. Time is
// watched by the first rank alone, because clocks differ.
bool TrainingLoop::is_asked_to_stop(double longest) {
  if (signals_.requested()) return true;
  if (first_ == nullptr) return false;
  if (first_->is_asked_to_stop()) return true;
  is_out_of_time_ = time_limit_.must_stop(longest, saver_.longest_save());
  return is_out_of_time_;
}

void TrainingLoop::compare_replicas() {
  communicator().log().set_activity(trainer_.steps_done(), "comparing replicas");
  const ProfilerRange range("comparing replicas");
  check_replicas(trainer_.model(), trainer_.steps_done());
}

// Returns whether it was done, and not stopped: it may take much longer than a step.
bool TrainingLoop::evaluate() {
  if (trainer_.validation_data() == nullptr) return true;
  communicator().log().set_activity(trainer_.steps_done(), "evaluation");
  const ProfilerRange range("evaluation");
  if (first_ != nullptr) first_->begin_evaluation();
  const auto start = Clock::now();
  auto last = start;
  double longest = 0, done = 0;
  const auto watch = [&](double share) {
    longest = std::max(longest, seconds_between(last, Clock::now()));
    last = Clock::now();
    done = share;
    if (first_ != nullptr) first_->show_evaluated(share);
    if (share > 0) fault_point(FaultPlace::evaluation, communicator().rank(), trainer_.steps_done());
    // A write that began before the evaluation may have ended.
    saver_.progress();
    return is_asked_to_stop(longest);
  };
  Trainer::FurtherFigures figures;
  if (const auto& generation = recipe_.training.generation)
    figures = [&](const Dataset& judged, std::int64_t most, const EvaluationWatch& own_watch) {
      return written_target_figures(trainer_.model(), judged, most, *generation, own_watch);
    };
  const auto evaluation = trainer_.evaluate(watch, figures);
  if (first_ != nullptr && evaluation) first_->show_evaluation(*evaluation);
  if (!evaluation && is_out_of_time_ && step_seconds_.empty() && done > 0)
    first_->warn_of_long_evaluation(seconds_between(start, last) / done);
  return evaluation.has_value();
}

// While updates are skipped, checkpoints would differ in the data position alone, and displace those of better times.
void TrainingLoop::save_regularly() {
  is_due_ = is_due_ || every(recipe_.checkpoint.every);
  if (!is_due_ || trainer_.skipped().in_a_row > 0) return;
  is_due_ = false;
  save();
}

void TrainingLoop::prepare_to_save() {
  if (recipe_.checkpoint.every == 0) return;
  const LocalModel& model = trainer_.model();
  if (model.device().is_cpu()) return saver_.prepare(state_slices(model, trainer_.saved_parameters()).slices);
  saver_.prepare(state_bytes(model, trainer_.saved_parameters()));
}

// A GPU's states are copied while training goes on, by the thread that then writes the copy.
StateSlices TrainingLoop::slices() {
  LocalModel& model = trainer_.model();
  const SavedParameters saved = trainer_.saved_parameters();
  if (model.device().is_cpu()) return state_slices(model, saved);
  StateSlices state = copied_slices(model, saver_.room_for(trainer_.steps_done(), state_bytes(model, saved)), saved);
  if (recipe_.checkpoint.async) model.lend_states(state.copy);
  return state;
}

void TrainingLoop::save(CheckpointSaver::Kind kind) {
  // A checkpoint would keep one of the values, and nobody could tell later that there were two.
  if (recipe_.launch.check_replicas_every > 0) compare_replicas();
  communicator().log().set_activity(trainer_.steps_done(), "saving a checkpoint");
  const ProfilerRange range("saving a checkpoint");
  if (first_ != nullptr) first_->keep_exchanges();
  const StateSlices state = slices();
  CheckpointState numbers = trainer_.state();
  numbers.began_from = began_from_;
  std::function<void()> fill;
  if (state.copy) fill = [copy = state.copy] { copy->run(); };
  saver_.write(numbers, state.slices, state.memory, kind, std::move(fill));
}

ExitCode TrainingLoop::stop() {
  end();
  if (memory_.has_limit()) {
    const MemoryExcess excess = largest_excess(communicator(), memory_.excess());
    // Whoever has asked is answered first; the run finds it again.
    if (!any_rank(communicator(), is_asked_to_stop(longest_step_)) && excess.bytes > 0) {
      found_excess_ = excess;
      if (first_ != nullptr)
        first_->show_pause(excess_text(trainer_.steps_done(), excess) + ": what follows is planned again");
      return ExitCode::stopped;
    }
  }
  return say_stopped();
}

ExitCode TrainingLoop::say_stopped() {
  if (first_ != nullptr) first_->show_stop(is_out_of_time_ ? "before its time limit" : "on request");
  return ExitCode::stopped;
}

void TrainingLoop::end() {
  save(CheckpointSaver::Kind::last);
  saver_.finish();
  if (!trace_) return;
  const Html last_step = trace_->write(*trace_file_);
  if (first_ != nullptr) first_->show_last_step(last_step);
}

}  // namespace llmtrain

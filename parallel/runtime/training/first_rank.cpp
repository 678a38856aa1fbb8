// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/training/first_rank.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "core/base/units.h"
#include "core/graph/operators/operators.h"
#include "core/recipe/step_shapes.h"
#include "parallel/device/device.h"
#include "parallel/plan/report/html/report_html.h"
#include "parallel/run/progress_line.h"

namespace llmtrain {
namespace {

// FLOP/s of one rank. A MemoryWatch of its own keeps the probe's matrices out of training's peak.
double peak_flops_of(const LocalModel& model) {
  const MemoryWatch apart;
  return measure_matmul_rate(model.device(), model.compute_type());
}

RoutingRow routing_row(const RoutingSums& sums) {
  return {sums.balance_loss / sums.passes, sums.z_loss / sums.passes, sums.dropped_share / sums.passes,
          sums.load / sums.passes, sums.entropy / sums.passes};
}

// Plans are within 5 % of what tensors take; beyond twice that something is held that no plan knows of.
constexpr double memory_tolerance = 1.1;

// The ranks of each pipeline position: stages may differ in their work, and their copies do not.
std::vector<std::vector<int>> ranks_with_the_same_work(const Mesh& mesh) {
  std::vector<std::vector<int>> groups(static_cast<std::size_t>(mesh.pipeline));
  const std::int64_t each = mesh.world() / mesh.pipeline;  // the pipeline's position varies slowest
  for (std::int64_t rank = 0; rank < mesh.world(); ++rank)
    groups[static_cast<std::size_t>(rank / each)].push_back(static_cast<int>(rank));
  return groups;
}

// One term alone is the loss itself.
std::vector<LossTermRow> named_rows(const std::vector<LossValue>& values) {
  std::vector<LossTermRow> rows;
  for (const LossValue& value : values) rows.push_back({value.name, value.value});
  return rows;
}

std::vector<LossTermRow> term_rows(const std::vector<LossValue>& terms) {
  return terms.size() < 2 ? std::vector<LossTermRow>() : named_rows(terms);
}

std::vector<LossTermRow> figure_rows(const std::vector<Figure>& figures) {
  std::vector<LossTermRow> rows;
  for (const Figure& figure : figures) rows.push_back({figure.name, figure.value});
  return rows;
}

std::vector<Fp8Row> fp8_rows(const std::vector<Fp8Representation>& kinds) {
  std::vector<Fp8Row> rows;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const Fp8Representation& kind = kinds[i];
    // Weights' gradients are cast from O1 on.
    if (kind.elements == 0) continue;
    rows.push_back({.kind = fp8_tensor_words[i],
                    .amax = kind.amax,
                    .smallest_scale = kind.smallest_scale,
                    .largest_scale = kind.largest_scale,
                    .saturated_share = kind.saturated / kind.elements,
                    .underflowed_share = kind.underflowed / kind.elements,
                    .signal_to_noise = kind.signal_to_noise()});
  }
  return rows;
}

std::optional<PlannedFigures> planned_figures(const RunRequest& request) {
  if (!request.plan) return std::nullopt;
  const BatchRecipe& batch = request.recipe().batch;
  const double step_tokens = static_cast<double>(batch.global * batch.sequence_length);
  return PlannedFigures{.profile = request.plan->profile,
                        .step_seconds = request.plan->step_seconds,
                        .tokens_per_second = step_tokens / request.plan->step_seconds,
                        .process_bytes = request.plan->process_bytes};
}

std::string skip_text(const StepResult& result, const LossScale& scale) {
  if (const std::optional<Spike>& spike = result.spike)
    return fmt::format(
        "the {}, {:.4g}, is a spike: {:.3g} standard deviations above the mean of the updates before, "
        "{:.4g}; the update was skipped",
        spike->quantity, spike->value, spike->deviations(), spike->mean);
  return fmt::format("the gradient norm is not finite; the update was skipped{}",
                     result.lowers_scale ? fmt::format(", and the loss scale lowered to {}", scale.value()) : "");
}

std::string fallback_text(const Fp8History::Fallback& left, const LocalModel& model) {
  constexpr std::array<std::string_view, fp8_operands> operands = {"inputs", "weights", "gradients of outputs"};
  const PrecisionRecipe& precision = model.recipe().precision;
  return fmt::format(
      "{}: operands of its products were beyond the range of their FP8 scales in {} steps in a row, in this one its "
      "{}, up to {:.4g} where {:.4g} fits; from here on they are in {}{}",
      model.graph().parameters[left.product].name, precision.high_precision.fallback_steps,
      operands[static_cast<std::size_t>(left.operand)], left.largest, left.range,
      element_name(element_type(precision.compute)),
      stores_fp8(precision.fp8_level)
          ? fmt::format(", and its gradients in {}", element_name(element_type(precision.gradients)))
          : "");
}

std::string fallback_text(const GradientFallback::Fallback& left, const LocalModel& model) {
  const PrecisionRecipe& precision = model.recipe().precision;
  return fmt::format(
      "{}: more than {:g} % of the sums of its FP8 gradients saturated in {} steps in a row, in this one {:.3g} %; "
      "from here on its gradients are in {}",
      model.graph().parameters[left.matrix].name, 100 * most_saturated, precision.high_precision.fallback_steps,
      100 * left.share, element_name(element_type(precision.gradients)));
}

}  // namespace

std::string reason_of_skips(const SpikeRecipe& spikes) {
  const bool may_be_spikes = spikes.loss > 0 || spikes.gradient_norm > 0;
  return may_be_spikes ? "the loss or the gradient norm was a spike or not finite" : "the gradient norm was not finite";
}

FirstRank::FirstRank(const RunRequest& request, const RunDirectory& directory, Trainer& trainer,
                     const ThreadMemory& memory)
    : recipe_(request.recipe()),
      directory_(directory),
      trainer_(trainer),
      memory_(memory),
      utilization_(peak_flops_of(trainer.model()) * trainer.model().groups().communicator().size()),
      metrics_(std::in_place, directory.path(), recipe_.log, trainer.steps_done(), trainer.evaluation_is_due()),
      // With details the log shows every step on the console, and a second line of it would be the same.
      progress_(recipe_.training.steps, trainer.steps_done(), request.verbosity != Verbosity::normal),
      report_(directory.path(), recipe_, planned_figures(request)),
      stragglers_(ranks_with_the_same_work(trainer.model().groups().mesh)),
      planned_tensor_bytes_(request.plan ? request.plan->most_tensor_bytes : 0),
      stop_file_(directory.path() / "STOP"),
      exchanges_(directory.path(), trainer.model()) {
  if (trainer.steps_done() > 0) resumed_after_ = trainer.steps_done();
}

void FirstRank::show(const StepResult& result, double seconds) {
  directory_.require_in_place();
  const std::int64_t step = trainer_.steps_done();
  if (result.skipped)
    progress_.note(fmt::format("step {}: {}", step, skip_text(result, trainer_.model().loss_scale())));
  TrainingRow row = make_row(result, seconds);
  if (has_row(recipe_, step)) {
    row.resumed_after = std::exchange(resumed_after_, std::nullopt);
    metrics_->write(row);
    report_.add(row);
  }
  if (recipe_.log.routing) metrics_->write_routing(step, result.chosen);
  progress_.show(row);
  for (const std::string& text : exchanges_.note()) progress_.note(text);
  watch(result, row);
}

// What is not as it should be, once each.
void FirstRank::watch(const StepResult& result, const TrainingRow& row) {
  if (const auto slow = stragglers_.add(result.own_seconds))
    progress_.warn(
        fmt::format("rank {} is slow: it computes {} per step, where the ranks with the same work take {} and "
                    "wait for it",
                    slow->rank, format_duration(slow->seconds), format_duration(slow->typical)));
  for (const Fp8History::Fallback& left : result.fallbacks)
    progress_.warn(fmt::format("step {}: {}", row.step, fallback_text(left, trainer_.model())));
  for (const GradientFallback::Fallback& left : result.gradient_fallbacks)
    progress_.warn(fmt::format("step {}: {}", row.step, fallback_text(left, trainer_.model())));
  if (planned_tensor_bytes_ > 0 && static_cast<double>(row.tensor_bytes) > memory_tolerance * planned_tensor_bytes_) {
    progress_.note(fmt::format("step {}: tensors take {}, more than the planned {}", row.step,
                               format_bytes(row.tensor_bytes),
                               format_bytes(static_cast<std::int64_t>(planned_tensor_bytes_))));
    planned_tensor_bytes_ = 0;
  }
}

TrainingRow FirstRank::make_row(const StepResult& result, double seconds) {
  const StepShape shape = trainer_.last_shape();
  const std::int64_t step_tokens = tokens_of_step(recipe_, shape);
  TrainingRow row;
  row.step = trainer_.steps_done();
  row.loss = result.loss;
  row.terms = term_rows(result.terms);
  row.learning_rate = result.learning_rate;
  row.gradient_norm = result.gradient_norm;
  row.tokens = trainer_.tokens_trained();
  row.step_seconds = seconds;
  row.tokens_per_second = static_cast<double>(step_tokens) / seconds;
  // A step trains on samples, whatever these are of; the rows that count in its losses do not matter.
  const double step_flops = static_cast<double>(samples_of_step(recipe_, shape)) *
                            training_flops_per_sample(trainer_.model().graph(), shape.sequence_length,
                                                      target_length(recipe_), shape.kept_tokens);
  row.mfu = utilization_.of_step(step_flops / seconds);
  row.memory_bytes = memory_peak(trainer_.model().device());
  row.tensor_bytes = memory_.peak();
  row.skipped = trainer_.skipped().total;
  if (recipe_.data.curriculum.sequence_length) row.sequence_length = static_cast<double>(shape.sequence_length);
  if (recipe_.batch.growth) row.global_batch = static_cast<double>(shape.global_batch);
  if (recipe_.data.curriculum.vocabulary_rarity) row.easiest_percent = static_cast<double>(trainer_.last_percent());
  if (recipe_.training.token_dropping)
    row.kept_tokens = static_cast<double>(shape.kept_tokens > 0 ? shape.kept_tokens : shape.sequence_length);
  if (trainer_.model().loss_scale().is_dynamic()) row.loss_scale = result.loss_scale;
  if (result.saturated.elements > 0) row.saturated_share = result.saturated.saturated / result.saturated.elements;
  if (const StepArena* arena = trainer_.arena(); arena != nullptr && arena->use().step_bytes > 0) {
    row.arena_bytes = static_cast<double>(arena->use().bytes);
    row.arena_share = static_cast<double>(arena->use().placed_bytes) / static_cast<double>(arena->use().step_bytes);
  }
  row.fp8 = fp8_rows(result.fp8);
  if (recipe_.model.moe) row.routing = routing_row(result.routing);
  return row;
}

void FirstRank::begin_evaluation() { progress_.begin_work(fmt::format("step {}: evaluating", trainer_.steps_done())); }

void FirstRank::show_evaluation(const Evaluation& evaluation) {
  const EvaluationRow row{trainer_.steps_done(), evaluation.loss, term_rows(evaluation.terms),
                          named_rows(evaluation.sets), figure_rows(evaluation.figures)};
  metrics_->write(row);
  report_.add(row);
  // Nobody asks for the perplexity of classes.
  std::string beside;
  if (!recipe_.model.classifier) beside = fmt::format("perplexity {:.2f}", std::exp(evaluation.terms.front().value));
  if (!row.figures.empty()) beside += (beside.empty() ? "" : ", ") + figures_text(row.figures);
  progress_.note(fmt::format("step {}: validation loss {:.4f}{}{}, {}", row.step, row.validation_loss,
                             row.terms.empty() && row.sets.empty() ? "" : " ",
                             terms_text(row.sets.empty() ? row.terms : row.sets), beside));
}

void FirstRank::warn_of_long_evaluation(double seconds) {
  progress_.warn(fmt::format(
      "an evaluation takes about {} here, and did not fit in the time limit, though nothing came before it: a run that "
      "is put back into the queue may never get further; set training.evaluate_batches to evaluate less, or raise the "
      "limit",
      format_duration(seconds)));
}

void FirstRank::show_rollback(const std::string& what) {
  // As after a restart: rows of steps that follow again are removed.
  metrics_.emplace(directory_.path(), recipe_.log, trainer_.steps_done());
  report_.read_again();
  resumed_after_ = trainer_.steps_done();
  progress_.warn(fmt::format("{}; returned to step {}, and going on after sample {} of the data", what,
                             trainer_.steps_done(), trainer_.samples_consumed()));
}

void FirstRank::show_last_step(const Html& section) { report_.add_section({section, {measured_step_script()}}); }

void FirstRank::show_stop(const std::string& why) {
  stop_file_.remove();
  report_.finish(RunState::stopped);
  progress_.note(fmt::format("stopped {} after step {}{}; run the same command again to continue", why,
                             trainer_.steps_done(),
                             trainer_.evaluation_is_due() ? ", in the evaluation, which is repeated" : ""));
}

void FirstRank::show_pause(const std::string& why) {
  report_.finish(RunState::stopped);
  progress_.warn(why);
}

void FirstRank::finish() {
  report_.finish(RunState::finished);
  if (const auto& history = trainer_.evaluations(); history && trainer_.stops_early())
    progress_.note(
        fmt::format("the run ends after step {}: {} evaluations in a row without progress "
                    "(training.early_stopping); the validation loss was lowest after step {}, {:.4f}",
                    trainer_.steps_done(), history->without_progress, history->best_step, history->best_loss));
  if (trainer_.skipped().total == 0) return;
  progress_.warn(fmt::format("{} of {} updates were skipped, because {}", trainer_.skipped().total,
                             trainer_.steps_done(), reason_of_skips(recipe_.training.spikes)));
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/training_loop.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/data/tokenizer.h"
#include "parallel/engine/checkpoint_saver.h"
#include "parallel/engine/device.h"
#include "parallel/engine/generate.h"
#include "parallel/engine/matmul_rate.h"
#include "parallel/engine/metrics_log.h"
#include "parallel/engine/model_state.h"
#include "parallel/engine/progress.h"
#include "parallel/engine/run_directory.h"
#include "parallel/engine/start_screen.h"
#include "parallel/engine/stop_signal.h"
#include "parallel/engine/trainer.h"

namespace llmtrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One run from its start (or its checkpoint) to its last step.
class TrainingLoop {
 public:
  TrainingLoop(const Recipe& recipe, const RunDirectory& directory, Trainer& trainer, Verbosity verbosity)
      : recipe_(recipe),
        directory_(directory),
        trainer_(trainer),
        metrics_(directory.path(), recipe.log, trainer.steps_done()),
        saver_(directory.checkpoints(), recipe.checkpoint),
        progress_(recipe.training.steps, trainer.steps_done(), verbosity == Verbosity::quiet),
        peak_flops_(measure_matmul_rate(trainer.model().device(), trainer.model().compute_type())) {}

  ExitCode run() {
    const bool evaluates = recipe_.training.evaluate_every > 0;
    if (evaluates && trainer_.steps_done() == 0) evaluate();
    while (trainer_.steps_done() < recipe_.training.steps) {
      train_step();
      const std::int64_t step = trainer_.steps_done();
      const bool last = step == recipe_.training.steps;
      if ((evaluates && last) || every(recipe_.training.evaluate_every)) evaluate();
      if (!last && stop_.requested()) return stop();
      if (!last && every(recipe_.checkpoint.every)) save();
    }
    save();
    saver_.finish();
    return ExitCode::done;
  }

  // The median over this process's steps; the first warms up.
  double typical_step_seconds() const {
    std::vector<double> sorted(step_seconds_.begin() + (step_seconds_.size() > 1 ? 1 : 0), step_seconds_.end());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

 private:
  bool every(std::int64_t interval) const { return interval > 0 && trainer_.steps_done() % interval == 0; }

  void train_step() {
    const auto start = Clock::now();
    const StepResult result = trainer_.step();
    if (result.skipped) {
      ++skipped_;
      progress_.note(fmt::format("step {}: the gradient is not finite; its update was skipped", trainer_.steps_done()));
    }
    const bool last = trainer_.steps_done() == recipe_.training.steps;
    const TrainingRow row = make_row(result, seconds_since(start));
    step_seconds_.push_back(row.step_seconds);
    if (last || every(recipe_.log.every)) metrics_.write(row);
    progress_.show(row);
  }

  TrainingRow make_row(const StepResult& result, double seconds) const {
    const std::int64_t step_tokens = recipe_.batch.global * recipe_.batch.sequence_length;
    TrainingRow row;
    row.step = trainer_.steps_done();
    row.loss = result.loss;
    row.learning_rate = result.learning_rate;
    row.gradient_norm = result.gradient_norm;
    row.tokens = row.step * step_tokens;
    row.step_seconds = seconds;
    row.tokens_per_second = static_cast<double>(step_tokens) / seconds;
    const Graph& graph = trainer_.model().graph();
    row.mfu = row.tokens_per_second * graph.training_flops_per_token(recipe_.batch.sequence_length) / peak_flops_;
    row.memory_bytes = memory_peak(trainer_.model().device());
    row.skipped = skipped_;
    return row;
  }

  void evaluate() {
    if (trainer_.validation_data() == nullptr) return;
    const double loss = trainer_.evaluate();
    metrics_.write(EvaluationRow{trainer_.steps_done(), loss});
    progress_.note(
        fmt::format("step {}: validation loss {:.4f}, perplexity {:.2f}", trainer_.steps_done(), loss, std::exp(loss)));
  }

  void save() {
    std::vector<at::Tensor> copies;
    saver_.write(trainer_.state(), state_slices(trainer_.model(), copies));
  }

  ExitCode stop() {
    save();
    saver_.finish();
    stop_.acknowledge();
    progress_.note(
        fmt::format("stopped on request after step {}; run the same command again to go on", trainer_.steps_done()));
    return ExitCode::stopped;
  }

  const Recipe& recipe_;
  const RunDirectory& directory_;
  Trainer& trainer_;
  MetricsLog metrics_;
  CheckpointSaver saver_;
  Progress progress_;
  StopSignal stop_{directory_.path() / "STOP"};
  double peak_flops_;
  std::int64_t skipped_ = 0;
  std::vector<double> step_seconds_;
};

// A taste of what the model learned; bytes alone can be shown without a tokenizer's file.
void show_sample(const Recipe& recipe, Trainer& trainer) {
  if (recipe.data.tokenizer.kind != TokenizerKind::bytes || recipe.model.vocab_size > 512) return;
  GenerateOptions options;
  options.tokens = 300;
  options.time_limit = std::chrono::seconds(5);
  options.seed = recipe.seed;
  const auto tokens = generate(trainer.model(), encode(recipe.data.tokenizer, "\n"), options);
  log().info("the model writes:\n{}", printable(decode(recipe.data.tokenizer, tokens)));
}

void keep_plan(const RunPlan& plan, const RunDirectory& directory) {
  write_file_atomically(directory.path() / "plan.json", plan.json);
  write_file_atomically(directory.path() / "report.html", plan.page);
}

void compare_with_plan(const RunPlan& plan, double step_seconds, Trainer& trainer) {
  log().info("a step took {} (median), planned {}; memory {} at its peak, planned {} (profile {})",
             format_duration(step_seconds), format_duration(plan.step_seconds),
             format_bytes(memory_peak(trainer.model().device())),
             format_bytes(static_cast<std::int64_t>(plan.peak_bytes)), plan.profile);
}

void show_end(const RunDirectory& directory) {
  const std::string path = directory.path().string();
  log().info("done. {}/metrics.jsonl has every step, {}/checkpoints the model,", path, path);
  log().info("{} what was shown here. Try: llmtrain sample {} --prompt \"…\"", directory.log_file().string(), path);
}

}  // namespace

ExitCode run_training(const RunRequest& request) {
  const Recipe& recipe = request.recipe;
  set_verbosity(request.verbosity);
  prepare_process();
  RunDirectory::check(recipe);
  Trainer trainer(recipe);
  const RunDirectory directory(recipe);
  log_to_file(directory.log_file());
  const auto checkpoint = directory.checkpoint_to_resume();
  if (request.plan) keep_plan(*request.plan, directory);
  show_start_screen(request, trainer, directory);
  if (checkpoint) {
    trainer.resume(CheckpointReader(*checkpoint));
    log().info("resuming after step {} from {}", trainer.steps_done(), checkpoint->string());
  }
  if (trainer.steps_done() >= recipe.training.steps) {
    log().info("all {} steps are done already", recipe.training.steps);
    return ExitCode::done;
  }
  TrainingLoop loop(recipe, directory, trainer, request.verbosity);
  const ExitCode code = loop.run();
  if (request.plan) compare_with_plan(*request.plan, loop.typical_step_seconds(), trainer);
  if (code == ExitCode::done && request.verbosity != Verbosity::quiet) show_sample(recipe, trainer);
  if (code == ExitCode::done) show_end(directory);
  return code;
}

}  // namespace llmtrain

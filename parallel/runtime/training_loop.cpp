// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/training_loop.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/elapsed_time.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/stop_signals.h"
#include "core/base/units.h"
#include "core/tokenizer/byte_tokenizer.h"
#include "parallel/comm/agreement.h"
#include "parallel/device/device.h"
#include "parallel/device/profiler_range.h"
#include "parallel/engine/generation/generation.h"
#include "parallel/engine/model_state.h"
#include "parallel/engine/replica_check.h"
#include "parallel/engine/run_data.h"
#include "parallel/run/checkpoint_saver.h"
#include "parallel/run/time_limit.h"
#include "parallel/runtime/first_rank.h"
#include "parallel/runtime/run_trace.h"

namespace llmtrain {
namespace {

using Clock = std::chrono::steady_clock;

// Whether any rank says so. Collective.
bool any_rank(Communicator& communicator, bool own) {
  const auto all = exchange_numbers(communicator, own ? 1 : 0);
  return std::find(all.begin(), all.end(), 1) != all.end();
}

// One run from its start (or its checkpoint) to its last step, on one rank.
class TrainingLoop {
 public:
  // `first` is null on the ranks that are not the first.
  TrainingLoop(const RunRequest& request, Trainer& trainer, FirstRank* first, Logger& logger)
      : recipe_(request.recipe()),
        signals_(*request.stop),
        time_limit_(request.deadline),
        trainer_(trainer),
        first_(first),
        logger_(logger),
        saver_(RunDirectory::checkpoints_of(recipe_), recipe_.checkpoint, trainer.model().groups().communicator(),
               [first](const std::string& text) { first->warn(text); }),
        trace_file_(request.trace) {
    if (trace_file_) trace_.emplace(trainer, request.layout);
  }

  ExitCode run() {
    // Nothing has changed since the run's newest checkpoint, or there is nothing to save.
    if (any_rank(communicator(), is_asked_to_stop())) return say_stopped(reason_to_stop());
    const bool evaluates = recipe_.training.evaluate_every > 0;
    // The loss of the initial weights is the reference for all later ones.
    if (evaluates && trainer_.steps_done() == 0) evaluate();
    prepare_to_save();
    while (trainer_.steps_done() < recipe_.training.steps) {
      const bool stops = train_step();
      if (every(recipe_.launch.check_replicas_every)) compare_replicas();
      if (has_diverged()) {
        roll_back();
        continue;
      }
      const bool last = trainer_.steps_done() == recipe_.training.steps;
      if ((evaluates && last) || every(recipe_.training.evaluate_every)) evaluate();
      // After the evaluation that this step may call for: a resumed run does not repeat it.
      if (!last && stops) return stop();
      if (!last) save_regularly();
    }
    end();
    if (first_ != nullptr) first_->finish();
    return ExitCode::done;
  }

  bool has_trained() const { return !step_seconds_.empty(); }
  // The median over this process's steps without the first, which warms up caches and allocators.
  double typical_step_seconds() const {
    std::vector<double> sorted(step_seconds_.begin() + (step_seconds_.size() > 1 ? 1 : 0), step_seconds_.end());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    // The median is robust against single slow steps, such as those beside a checkpoint.
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

 private:
  bool every(std::int64_t steps) const { return steps > 0 && trainer_.steps_done() % steps == 0; }

  // The same on all ranks, because the gradient norm is.
  bool has_diverged() const {
    const std::int64_t limit = recipe_.training.skip_limit;
    return limit > 0 && trainer_.skipped().in_a_row >= limit;
  }

  void roll_back() {
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
  std::string newest_checkpoint() {
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
  bool train_step() {
    const bool asked = is_asked_to_stop();
    const auto start = Clock::now();
    const StepResult result = trainer_.step(asked ? StopRequest::stop : StopRequest::none);
    // Before saving and tracing, which are not part of a step.
    step_seconds_.push_back(seconds_since(start));
    longest_step_ = std::max(longest_step_, step_seconds_.back());
    // At the same point of the step on all ranks, because it is collective.
    saver_.progress();
    if (trace_) trace_->end_step();
    if (first_ != nullptr) {
      first_->show(result, step_seconds_.back());
    } else {
      logger_.debug("step {}: loss {}, {}", trainer_.steps_done(), result.loss, format_duration(step_seconds_.back()));
    }
    // A request that came during the step. Several ranks must agree first, which the next step's exchange does.
    const bool asked_alone = ranks() == 1 && is_asked_to_stop();
    return result.stop_requested || asked_alone;
  }

  // This rank; the next step's exchange tells the others. Time is watched by the first rank alone, because clocks
  // differ.
  bool is_asked_to_stop() const {
    return signals_.requested() || (first_ != nullptr && (first_->is_asked_to_stop() || must_stop_in_time()));
  }

  bool must_stop_in_time() const { return time_limit_.must_stop(longest_step_, saver_.longest_save()); }

  Communicator& communicator() const { return trainer_.model().groups().communicator(); }
  int ranks() const { return communicator().size(); }

  void compare_replicas() {
    communicator().log().set_activity(trainer_.steps_done(), "comparing replicas");
    const ProfilerRange range("comparing replicas");
    check_replicas(trainer_.model(), trainer_.steps_done());
  }

  void evaluate() {
    if (trainer_.validation_data() == nullptr) return;
    communicator().log().set_activity(trainer_.steps_done(), "evaluation");
    const ProfilerRange range("evaluation");
    const double loss = trainer_.evaluate();
    if (first_ != nullptr) first_->show_evaluation(loss);
  }

  // While updates are skipped, checkpoints would differ in the data position alone, and displace those of better times.
  void save_regularly() {
    is_due_ = is_due_ || every(recipe_.checkpoint.every);
    if (!is_due_ || trainer_.skipped().in_a_row > 0) return;
    is_due_ = false;
    save();
  }

  // A GPU's state is copied to the host by state_slices() itself.
  void prepare_to_save() {
    if (recipe_.checkpoint.every > 0 && trainer_.model().device().is_cpu())
      saver_.prepare(state_slices(trainer_.model()).slices);
  }

  void save(CheckpointSaver::Kind kind = CheckpointSaver::Kind::regular) {
    // A checkpoint would keep one of the values, and nobody could tell later that there were two.
    if (recipe_.launch.check_replicas_every > 0) compare_replicas();
    communicator().log().set_activity(trainer_.steps_done(), "saving a checkpoint");
    const ProfilerRange range("saving a checkpoint");
    if (first_ != nullptr) first_->keep_exchanges();
    const StateSlices state = state_slices(trainer_.model());
    saver_.write(trainer_.state(), state.slices, state.memory, kind);
  }

  ExitCode stop() {
    // Before the save, whose time is known then.
    const std::string why = reason_to_stop();
    end();
    return say_stopped(why);
  }

  std::string reason_to_stop() const {
    return must_stop_in_time() && !signals_.requested() ? "before its time limit" : "on request";
  }

  ExitCode say_stopped(const std::string& why) {
    if (first_ != nullptr) first_->show_stop(why);
    return ExitCode::stopped;
  }

  void end() {
    save(CheckpointSaver::Kind::last);
    saver_.finish();
    if (!trace_) return;
    const std::string last_step = trace_->write(*trace_file_);
    if (first_ != nullptr) first_->show_last_step(last_step);
  }

  const Recipe& recipe_;
  const StopSignals& signals_;
  TimeLimit time_limit_;
  Trainer& trainer_;
  FirstRank* first_;
  Logger& logger_;
  CheckpointSaver saver_;
  bool is_due_ = false;  // a regular checkpoint
  std::vector<double> step_seconds_;
  double longest_step_ = 0;
  const std::optional<std::string>& trace_file_;
  std::optional<RunTrace> trace_;
};

// The log of a rank other than the first: `log/rank-0000N.log` in the run directory, nothing on the console. Throws
// Error(cannot_write).
Logger rank_log(const RunRequest& request, int rank) {
  Logger logger("rank");
  const std::filesystem::path folder = request.recipe().log.directory;
  log_to_file(folder / "log" / fmt::format("rank-{:05}.log", rank), logger);
  return logger;
}

// Runs a rank's training. If it fails, the rank's log then says what the rank did last: of a run that hangs, each rank
// knows another part.
ExitCode run_observed(TrainingLoop& loop, const OperationLog& operations, Logger& logger) {
  try {
    return loop.run();
  } catch (const std::exception& error) {
    logger.debug("ends: {}", error.what());
    logger.debug("this rank is in {}; its last operations:", operations.activity());
    for (const OperationRecord& each : operations.last_operations())
      logger.debug("operation {}: {}, {}, started {} ago", each.number, each.description,
                   each.state == OperationRecord::State::done ? "done" : "not done", format_duration(each.age_seconds));
    logger.flush();
    throw;
  }
}

// Shows a sample of what the model has learned, for byte tokenizers only: their tokens need no file to decode.
void show_sample(const Recipe& recipe, Trainer& trainer) {
  if (recipe.data.tokenizer.kind != TokenizerKind::bytes || recipe.model.vocab_size > 512) return;
  const GenerateOptions options{.tokens = 300, .choice = {.seed = recipe.seed}, .time_limit = std::chrono::seconds(5)};
  const ByteTokenizer tokenizer;
  const auto tokens = generate(trainer.model(), encode_prompt(tokenizer, "\n"), options);
  log().info("the model writes:\n{}", printable(tokenizer.decode(tokens)));
}

void compare_with_plan(const RunRequest& request, double step_seconds, Trainer& trainer, const ThreadMemory& memory) {
  const RunPlan& plan = *request.plan;
  log().info("one step took {} (median), planned {}; memory {} at its peak, planned {} (profile {})",
             format_duration(step_seconds), format_duration(plan.step_seconds),
             format_bytes(memory_peak(trainer.model().device())),
             format_bytes(static_cast<std::int64_t>(plan.process_bytes)), plan.profile);
  log().info("{}tensors took {} at their peak, planned {}", request.launch.ranks > 1 ? "the first rank's " : "",
             format_bytes(memory.peak()), format_bytes(static_cast<std::int64_t>(plan.tensor_bytes)));
}

void show_end(const RunDirectory& directory) {
  const std::string path = directory.path().string();
  log().info("done. {}/metrics.jsonl has every step, {}/checkpoints the model,", path, path);
  log().info("{} what was shown here. Try: llmtrain sample {} --prompt \"…\"", directory.log_file().string(), path);
}

// The first rank's training, with everything that it writes and shows.
ExitCode train_first(const RunRequest& request, Trainer& trainer, RunFolderLock& lock, SharedVerification& verification,
                     const ThreadMemory& memory) {
  const Recipe& recipe = request.recipe();
  RunDirectory directory(recipe, std::move(lock));
  log_to_file(directory.log_file());
  std::optional<std::filesystem::path> checkpoint;
  verification.run([&](const VerifyCheckpoint& verify) { checkpoint = directory.checkpoint_to_resume(verify); });
  if (request.plan) {
    // Rewritten on every start: a resumed run may have another layout.
    write_file_atomically(directory.path() / "plan.json", request.plan->json);
    write_file_atomically(directory.path() / "plan.html", request.plan->page);
  }
  show_start_screen(request, trainer, directory);
  // All ranks resume from the checkpoint that the first one has chosen, whatever they would find themselves.
  share_text(trainer.model().groups().communicator(), checkpoint ? checkpoint->string() : "");
  if (checkpoint) {
    trainer.resume(CheckpointReader(*checkpoint));
    log().info("resuming after step {} from {}", trainer.steps_done(), checkpoint->string());
  } else {
    trainer.load_first_weights();
  }
  use_exchange_file(directory.path(), trainer.model());
  if (trainer.steps_done() >= recipe.training.steps) {
    show_nothing_to_do(recipe, trainer.steps_done());
    return ExitCode::done;
  }
  show_changes(directory, trainer);
  const bool is_quiet = request.verbosity == Verbosity::quiet;
  directory.keep_recipe(trainer.steps_done());
  FirstRank first(request, directory, trainer, memory);
  TrainingLoop loop(request, trainer, &first, log());
  const ExitCode code = run_observed(loop, trainer.model().groups().communicator().log(), log());
  if (request.plan && loop.has_trained()) compare_with_plan(request, loop.typical_step_seconds(), trainer, memory);
  // Otherwise whole weights exist only while all ranks take part.
  const bool has_weights = trainer.model().holds_all_weights();
  if (code == ExitCode::done && !is_quiet && has_weights) show_sample(recipe, trainer);
  if (request.trace) log().info("the timeline of the last steps for ui.perfetto.dev: {}", *request.trace);
  if (code == ExitCode::done) show_end(directory);
  return code;
}

ExitCode train_other(const RunRequest& request, Trainer& trainer, SharedVerification& verification) {
  verification.run({});
  Communicator& communicator = trainer.model().groups().communicator();
  const std::string checkpoint = share_text(communicator, "");
  Logger logger = rank_log(request, communicator.rank());
  logger.info("rank {} of {}, on {}", communicator.rank(), communicator.size(),
              describe_device(trainer.model().device()));
  if (checkpoint.empty())
    trainer.load_first_weights();
  else
    trainer.resume(CheckpointReader(checkpoint));
  use_exchange_file({}, trainer.model());
  if (trainer.steps_done() >= request.recipe().training.steps) return ExitCode::done;
  TrainingLoop loop(request, trainer, nullptr, logger);
  return run_observed(loop, communicator.log(), logger);
}

// Takes the run's folder, on the first rank, before ranks write or read anything in it. Collective.
void lock_folder(const Recipe& recipe, Communicator& communicator, std::optional<RunFolderLock>& lock) {
  run_together(communicator, [&] {
    if (communicator.rank() == 0) lock.emplace(recipe);
  });
  if (communicator.size() > 1) check_shared_folder(communicator, RunDirectory::checkpoints_of(recipe));
}

DataCache data_cache_of(const RunRequest& request, Communicator& communicator) {
  const auto is_asked_to_stop = [&signals = *request.stop, limit = TimeLimit(request.deadline)] {
    return signals.requested() || limit.must_stop(0, std::nullopt);
  };
  return shared_data_cache(communicator, RunDirectory::data_cache_of(request.recipe()), is_asked_to_stop);
}

}  // namespace

ExitCode run_training(const RunRequest& request, const c10::Device& device, Communicator& communicator) {
  name_profiler_thread(fmt::format("rank {}", communicator.rank()));
  check_same_recipe(communicator, request.recipe());
  SharedVerification verification(communicator);
  // Before the model is built, which may take minutes and much memory.
  verification.run([&](const VerifyCheckpoint& verify) { RunDirectory::check(request.recipe(), verify); });
  // Before the model, too.
  if (any_rank(communicator, request.stop->requested())) {
    if (communicator.rank() == 0) log().info("stopped on request before training; run the same command again");
    return ExitCode::stopped;
  }
  const MemoryWatch watch;
  std::optional<RunFolderLock> lock;
  lock_folder(request.recipe(), communicator, lock);
  // The folder is locked: whether it has a checkpoint does not change.
  const bool resumes =
      any_rank(communicator, communicator.rank() == 0 && RunDirectory::has_checkpoint(request.recipe()));
  Trainer trainer(request.layout, communicator, device, data_cache_of(request, communicator),
                  resumes ? FirstWeights::leave : FirstWeights::load);
  return lock ? train_first(request, trainer, *lock, verification, watch.memory())
              : train_other(request, trainer, verification);
}

}  // namespace llmtrain

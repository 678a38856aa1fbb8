// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/training/run_training.h"

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/data/samples/describe_sources.h"
#include "core/json/json_text.h"
#include "core/signals/stop_signals.h"
#include "core/tokenizer/byte_tokenizer.h"
#include "parallel/comm/agreement.h"
#include "parallel/device/device.h"
#include "parallel/device/device_runtime.h"
#include "parallel/device/profiler_range.h"
#include "parallel/engine/data/run_data.h"
#include "parallel/engine/generation/generation.h"
#include "parallel/engine/model_state.h"
#include "parallel/layout/connections.h"
#include "parallel/run/time_limit.h"
#include "parallel/runtime/training/first_rank.h"
#include "parallel/runtime/training/run_trace.h"
#include "parallel/runtime/training/training_loop.h"

namespace llmtrain {
namespace {

// The log of a rank other than the first: `log/rank-0000N.log` in the run directory, nothing on the console. Throws
// Error(cannot_write).
Logger rank_log(const RunRequest& request, int rank) {
  Logger logger("rank");
  const std::filesystem::path folder = request.recipe().log.directory;
  log_to_file(folder / "log" / fmt::format("rank-{:05}.log", rank), logger);
  return logger;
}

// All are made before the first step, with the groups of ranks; each takes memory.
void log_connections(Trainer& trainer, Logger& logger) {
  const Communicator& communicator = trainer.model().groups().communicator();
  const auto made = [&](ConnectionKind kind) { return communicator.log().connections(kind); };
  if (made(ConnectionKind::mpi) == 0) return;  // ranks are threads, or there is one
  logger.debug("connections: {} of NCCL, {} of MPI; a plan counts {} between GPUs", made(ConnectionKind::nccl),
               made(ConnectionKind::mpi),
               connections_of(trainer.model().layout().partition(), communicator.rank()).size());
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

StopFile stop_file_of(const Recipe& recipe) { return StopFile(std::filesystem::path(recipe.log.directory) / "STOP"); }

// Whether a rank is asked to stop beside the steps. Time and the file STOP are watched by the first one alone.
WorkMonitor::Stops stops_of(const RunRequest& request, const Communicator& communicator) {
  return [&signals = *request.stop, is_first = communicator.rank() == 0, file = stop_file_of(request.recipe()),
          limit = TimeLimit(request.deadline)] {
    return signals.requested() || (is_first && (file.exists() || limit.must_stop(0, std::nullopt)));
  };
}

// Shows a sample of what the model has learned, for byte tokenizers only: their tokens need no file to decode. Encoders
// and encoder-decoders continue no text.
void show_sample(const Recipe& recipe, Trainer& trainer, const WorkMonitor::Stops& stops) {
  if (has_bodies(recipe.model.architecture)) return;
  if (recipe.data.tokenizer.kind != TokenizerKind::bytes || recipe.model.vocab_size > 512) return;
  const GenerateOptions options{.tokens = 300, .choice = {.seed = recipe.seed}, .time_limit = std::chrono::seconds(5)};
  const ByteTokenizer tokenizer;
  const std::vector<std::vector<std::int64_t>> prompts{encode_prompt(tokenizer, "\n")};
  std::vector<std::int64_t> tokens = prompts.front();
  generate(trainer.model(), prompts, options, [&](const TextNumber&, std::int64_t token) {
    tokens.push_back(token);
    return !stops();
  });
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

void show_arena(const StepArena::Use& use, bool is_one_of_several) {
  if (use.step_bytes == 0 || use.least == 0) return;
  log().info("{}arena has {}, {:.3f} times what is in use at once; {:.1f} % of the last step's bytes were in it",
             is_one_of_several ? "the first rank's " : "the ", format_bytes(use.bytes),
             static_cast<double>(use.bytes) / static_cast<double>(use.least),
             100 * static_cast<double>(use.placed_bytes) / static_cast<double>(use.step_bytes));
}

// No class of transformers has a residual network's norms.
std::string next_command(const Recipe& recipe, const std::string& path) {
  const Architecture architecture = recipe.model.architecture;
  if (architecture == Architecture::resnet) return fmt::format("llmtrain eval {}", path);
  return has_bodies(architecture) ? fmt::format("llmtrain checkpoint export {} FOLDER --to hf", path)
                                  : fmt::format("llmtrain sample {} --prompt \"…\"", path);
}

void show_end(const RunDirectory& directory, const Recipe& recipe) {
  const std::string path = directory.path().string();
  log().info("done. {}/metrics.jsonl has every step, {}/checkpoints the model,", path, path);
  log().info("{} what was shown here. Try: {}", directory.log_file().string(), next_command(recipe, path));
}

// A run whose last evaluation was stopped has that to do.
bool is_finished(const Recipe& recipe, const Trainer& trainer) {
  const bool evaluates = recipe.training.evaluate_every > 0 && trainer.evaluation_is_due();
  if (trainer.stops_early()) return true;
  return trainer.steps_done() > recipe.training.steps || (trainer.steps_done() == recipe.training.steps && !evaluates);
}

// What was read of each source, and what was left out of it.
void write_data_description(const std::filesystem::path& file, const Trainer& trainer) {
  const DataRecipe& data = trainer.recipe().data;
  Json description = {{"train", describe_sources(trainer.train_data(), data.train)}};
  for (const ValidationSet& set : trainer.data().validation)
    for (Json& source : describe_sources(set.data, set.sources)) {
      if (!set.name.empty()) source["name"] = set.name;
      description["validation"].push_back(std::move(source));
    }
  write_file_atomically(file, description.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

// How a part of a run has ended that had one layout.
struct PartEnd {
  ExitCode code = ExitCode::done;
  std::optional<MemoryExcess> excess{};  // the rest is to have another layout
  std::int64_t steps_done = 0;
};

// The first rank's training, with everything that it writes and shows.
PartEnd train_first(const RunRequest& request, Trainer& trainer, RunFolderLock& lock, SharedVerification& verification,
                    ThreadMemory& memory) {
  const Recipe& recipe = request.recipe();
  RunDirectory directory(recipe, std::move(lock));
  log_to_file(directory.log_file());
  std::optional<CheckpointReader> checkpoint;
  verification.run([&](const VerifyCheckpoint& verify) { checkpoint = directory.checkpoint_to_resume(verify); });
  if (request.plan) {
    // Rewritten on every start: a resumed run may have another layout.
    write_file_atomically(directory.path() / "plan.json", request.plan->json);
    write_file_atomically(directory.path() / "plan.html", request.plan->page);
  }
  write_data_description(directory.path() / "data.json", trainer);
  show_start_screen(request, trainer, directory);
  log_connections(trainer, log());
  // All ranks resume from the checkpoint that the first one has chosen, whatever they would find themselves.
  Communicator& communicator = trainer.model().groups().communicator();
  share_text(communicator, checkpoint ? checkpoint->folder().string() : "");
  const std::string began_from = directory.began_from(checkpoint);
  if (checkpoint) {
    trainer.resume(*checkpoint);
    log().info("resuming after step {} from {}", trainer.steps_done(), checkpoint->folder().string());
    // The recipes of a run that goes on in its own directory have been compared by RunDirectory.
    if (checkpoint->folder().parent_path() != directory.checkpoints()) warn_of_other_data(*checkpoint, trainer);
    // A checkpoint of another run, which may go on: this rank keeps it until all have read it.
    exchange_numbers(communicator, 0);
    checkpoint.reset();
  } else {
    trainer.load_first_weights();
  }
  use_exchange_file(directory.path(), trainer.model());
  if (is_finished(recipe, trainer)) {
    show_nothing_to_do(trainer);
    return {};
  }
  show_changes(directory, trainer);
  const bool is_quiet = request.verbosity == Verbosity::quiet;
  directory.keep_recipe(trainer.steps_done());
  FirstRank first(request, directory, trainer, memory);
  TrainingLoop loop(request, trainer, &first, log(), memory, began_from);
  const ExitCode code = run_observed(loop, communicator.log(), log());
  if (loop.excess()) return {code, loop.excess(), trainer.steps_done()};
  if (request.plan && loop.has_trained()) compare_with_plan(request, loop.typical_step_seconds(), trainer, memory);
  if (trainer.arena() != nullptr) show_arena(trainer.arena()->use(), request.launch.ranks > 1);
  // Otherwise whole weights exist only while all ranks take part.
  const bool has_weights = trainer.model().holds_all_weights();
  const WorkMonitor::Stops stops = stops_of(request, communicator);
  if (code == ExitCode::done && !is_quiet && has_weights && !stops()) show_sample(recipe, trainer, stops);
  if (request.trace) log().info("the timeline of the last steps for ui.perfetto.dev: {}", *request.trace);
  if (code == ExitCode::done) show_end(directory, recipe);
  return {code};
}

PartEnd train_other(const RunRequest& request, Trainer& trainer, SharedVerification& verification,
                    ThreadMemory& memory) {
  verification.run({});
  Communicator& communicator = trainer.model().groups().communicator();
  const std::string checkpoint = share_text(communicator, "");
  Logger logger = rank_log(request, communicator.rank());
  logger.info("rank {} of {}, on {}", communicator.rank(), communicator.size(),
              describe_device(trainer.model().device()));
  log_connections(trainer, logger);
  if (checkpoint.empty()) {
    trainer.load_first_weights();
  } else {
    trainer.resume(CheckpointReader(checkpoint));
    exchange_numbers(communicator, 0);  // as train_first() says
  }
  use_exchange_file({}, trainer.model());
  if (is_finished(request.recipe(), trainer)) return {};
  TrainingLoop loop(request, trainer, nullptr, logger, memory);
  const ExitCode code = run_observed(loop, communicator.log(), logger);
  return {code, loop.excess(), trainer.steps_done()};
}

// Takes the run's folder, on the first rank, before ranks write or read anything in it. Collective.
void lock_folder(const Recipe& recipe, Communicator& communicator, std::optional<RunFolderLock>& lock) {
  run_together(communicator, [&] {
    if (communicator.rank() == 0) lock.emplace(recipe);
  });
  if (communicator.size() > 1) check_shared_folder(communicator, RunDirectory::checkpoints_of(recipe));
}

// Before the first step, with everything that may take long.
PartEnd start_and_train(const RunRequest& request, const c10::Device& device, Communicator& communicator) {
  const bool is_first = communicator.rank() == 0;
  const WorkMonitor::Stops stops = stops_of(request, communicator);
  const WorkMonitor monitor(stops, is_first ? WorkMonitor::Lines::in_log : WorkMonitor::Lines::none);
  SharedVerification verification(communicator, monitor);
  // Before the model is built, which may take minutes and much memory.
  verification.run([&](const VerifyCheckpoint& verify) { RunDirectory::check(request.recipe(), verify); });
  // Before the model, too.
  if (any_rank(communicator, stops())) {
    if (is_first) stop_file_of(request.recipe()).remove();
    if (is_first)
      log().info("stopped on request or before its time limit, before training; run the same command again");
    return {ExitCode::stopped};
  }
  MemoryWatch watch;
  std::optional<RunFolderLock> lock;
  lock_folder(request.recipe(), communicator, lock);
  // The folder is locked: whether it has a checkpoint does not change.
  const bool resumes = any_rank(communicator, is_first && RunDirectory::has_checkpoint(request.recipe()));
  const DataCache cache = shared_data_cache(communicator, RunDirectory::data_cache_of(request.recipe()), stops);
  Trainer trainer(request.layout, communicator, device, cache, resumes ? FirstWeights::leave : FirstWeights::load,
                  monitor);
  return lock ? train_first(request, trainer, *lock, verification, watch.memory())
              : train_other(request, trainer, verification, watch.memory());
}

// Gives the rest of a run, which goes on from its newest checkpoint, a layout that needs less memory. Collective.
void replan(RunRequest& request, const PartEnd& part, const c10::Device& device, Communicator& communicator) {
  // One rank shows the plan.
  if (communicator.rank() > 0) request.plan.reset();
  run_together(communicator, [&] {
    try {
      request.tensor_limit->replan(request, part.excess->bytes);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}, and no plan needs so much less; its checkpoint is saved, and the same "
                                            "command goes on with a higher memory.limit: {}",
                                            excess_text(part.steps_done, *part.excess), error.what()));
    }
  });
  if (communicator.rank() == 0) advise_on_memory(request.memory_advice);
  // What the former layout's tensors had, the next one's may have in other sizes.
  runtime_of(device).release_cached_memory(device);
}

}  // namespace

ExitCode run_training(const RunRequest& asked, const c10::Device& device, Communicator& communicator) {
  name_profiler_thread(fmt::format("rank {}", communicator.rank()));
  if (!device.is_cpu()) allow_tf32(asked.recipe().precision.tf32);
  RunRequest request = asked;
  try {
    while (true) {
      check_same_recipe(communicator, request.recipe());
      const PartEnd part = start_and_train(request, device, communicator);
      if (!part.excess) return part.code;
      replan(request, part, device, communicator);
    }
  } catch (const Error& error) {
    // So that the same command goes on.
    if (error.code() == ExitCode::stopped && communicator.rank() == 0) stop_file_of(request.recipe()).remove();
    throw;
  }
}

}  // namespace llmtrain

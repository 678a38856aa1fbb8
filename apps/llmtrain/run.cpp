// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/data/epochs.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/launch/deadline.h"
#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/launch/launch.h"
#include "apps/llmtrain/launch/network_interfaces.h"
#include "apps/llmtrain/launch/parent_death.h"
#include "apps/llmtrain/plan/limited_run.h"
#include "apps/llmtrain/plan/more_devices.h"
#include "apps/llmtrain/plan/plan.h"
#include "apps/llmtrain/runtime.h"
#include "core/base/error.h"
#include "core/base/fault_point.h"
#include "core/base/log.h"
#include "core/machine/host_memory.h"
#include "core/recipe/rules/rules.h"
#include "core/signals/stop_signals.h"

namespace llmtrain::app {
namespace {

struct RunOptions {
  std::string recipe;
  std::vector<Override> overrides;
  RunFlags flags;
  std::optional<std::string> resume;
  std::optional<std::string> trace;
  bool dry_run = false;
  bool quiet = false;
  bool verbose = false;
};

std::vector<Override> all_overrides(const RunOptions& options) {
  auto overrides = options.overrides;
  for (Override& change : options.flags.overrides()) overrides.push_back(std::move(change));
  if (options.resume) overrides.push_back(text_override("checkpoint.resume", *options.resume));
  return overrides;
}

// Checked before hours of training, not after them.
void require_folder_of(const std::string& file) {
  const auto folder = std::filesystem::absolute(file).parent_path();
  if (std::filesystem::is_directory(folder)) return;
  throw Error(ExitCode::cannot_write, "--trace: " + folder.string() + ": no such folder; create it first");
}

std::string latest_checkpoint_file(const Recipe& recipe) {
  return (std::filesystem::path(recipe.log.directory) / "checkpoints" / "latest").string();
}

// The recipe with the steps of its epochs, if it has any. To count them may take as long as to tokenise the data, so
// what can be refused without them is refused before.
Recipe counted_for_run(const RunOptions& options, Recipe recipe, const std::optional<Launcher>& launcher,
                       const StopSignals& stop) {
  if (!recipe.training.counts_steps()) return recipe;
  decide_launch(options.recipe, recipe, launcher);
  return read_counted_recipe(options.recipe, all_overrides(options), {true, [&stop] { return stop.requested(); }});
}

int run_here(const RunOptions& options, const std::optional<Launcher>& started_by, StopSignals& stop) {
  Recipe recipe = read_recipe(options.recipe, all_overrides(options));
  const std::optional<Launcher> launcher = launcher_of(recipe, started_by);
  fault_point(FaultPlace::recipe, launcher ? launcher->rank : 0, 0);
  if (options.dry_run) {
    PlanOutputs outputs;
    outputs.trace = options.trace;
    return show_plan(options.recipe, read_counted_recipe(options.recipe, all_overrides(options)), outputs);
  }
  if (options.trace) require_folder_of(*options.trace);
  require_executable(recipe, options.recipe);
  require_training_data(recipe, options.recipe);
  recipe = counted_for_run(options, std::move(recipe), launcher, stop);
  RunRequest request;
  request.stop = &stop;
  request.deadline = deadline_of(recipe);
  request.trace = options.trace;
  request.verbosity = options.quiet ? Verbosity::quiet : options.verbose ? Verbosity::verbose : Verbosity::normal;
  request.launch = decide_launch(options.recipe, recipe, launcher);
  use_network_interfaces(options.recipe, recipe.launch);
  request.layout = layout_for_run(options.recipe, recipe, request.launch);
  require_fields(request.layout->graph(), recipe.data, options.recipe);
  require_trained_tokens(request.layout->graph(), recipe, options.recipe);
  require_hard_memory(options.recipe, request.layout);
  request.memory_advice = memory_advice_for_run(request.layout);
  // For errors that only main() names; the runtime is a library of its own and is told, too.
  advise_on_memory(request.memory_advice);
  RuntimeInterface& runtime = load_runtime();
  // A build without MPI runs its ranks as threads of this process.
  if (!launcher && request.launch.backend == CommunicationBackend::automatic && !runtime.has_mpi())
    request.launch.backend = CommunicationBackend::local;
  // One process answers for all ranks.
  const std::string latest = latest_checkpoint_file(recipe);
  if (!launcher) stop.answer(latest);
  if (launcher && launcher->rank == 0) stop.answer(latest, StopSignals::StartedBy::launcher);
  if (starts_processes(request.launch, launcher)) return start_ranks(request.launch.ranks, stop, latest);
  set_verbosity(request.verbosity);
  request.tensor_limit = tensor_limit_for_run(options.recipe, recipe, request.layout, request.launch);
  // One rank plans and speaks for all: every rank would get the same.
  if (!launcher || launcher->rank == 0) {
    for (const std::string& warning : recipe_warnings(recipe)) log().warn("{}: {}", options.recipe, warning);
    request.plan = plan_for_run(request.layout, request.launch);
  }
  return runtime.run(request);
}

// Whether the launcher ends this rank within two seconds, because another one has ended with an error.
bool is_ended_by_launcher(const StopSignals& stop) {
  const bool was_asked_before = stop.requested();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < until) {
    if (stop.requested() && !was_asked_before) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// From its destruction on, the process's exit code is settled: a request that comes while its libraries tidy up, which
// takes tenths of a second, changes nothing.
class SettledEnd {
 public:
  SettledEnd() = default;
  ~SettledEnd() {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) std::signal(signal, SIG_IGN);
  }
  SettledEnd(const SettledEnd&) = delete;
  SettledEnd& operator=(const SettledEnd&) = delete;
};

int run(const RunOptions& options) {
  // First of all, so that a request counts from the process's first instant. Never destroyed: its destructor would give
  // the signals back to the system, which ends the process.
  StopSignals& stop = *std::make_unique<StopSignals>().release();
  const SettledEnd settled;
  const std::optional<Launcher> launcher = find_launcher();
  if (launcher && launcher->ranks > 1) end_with_launcher();
  try {
    return run_here(options, launcher, stop);
  } catch (const Error& error) {
    // The first rank finds the same error in the same recipe and reports it; its exit ends this one.
    if (launcher && launcher->rank > 0 && is_ended_by_launcher(stop)) return static_cast<int>(error.code());
    throw;
  }
}

}  // namespace

void add_run(CLI::App& program, Action& action) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = program.add_subcommand("run", "Trains the model of a recipe");
  add_recipe_argument(*command, options->recipe)->required();
  add_set_flag(*command, options->overrides);
  add_run_dir_flag(*command, options->flags);
  command
      ->add_option("--resume", options->resume,
                   "Resume the run in the directory, start anew, or start from a checkpoint (checkpoint.resume)")
      ->type_name("auto|never|PATH");
  add_ranks_flag(*command, options->flags);
  command->add_option("--trace", options->trace, "Write the timeline of the last three steps of all ranks for Perfetto")
      ->type_name("FILE");
  command->add_flag("--dry-run", options->dry_run, "Show the plan, as llmtrain plan does, and run nothing");
  CLI::Option* quiet = command->add_flag("-q,--quiet", options->quiet, "Show warnings and errors only");
  command->add_flag("-v,--verbose", options->verbose, "Show details")->excludes(quiet);
  command->footer(
      "Examples:\n  llmtrain run recipes/quickstart.json\n"
      "  llmtrain run recipes/quickstart.json --set training.steps=50 --run-dir runs/short");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace llmtrain::app

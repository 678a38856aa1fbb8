// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/slurm/slurm_flags.h"
#include "apps/llmtrain/standard_streams.h"
#include "apps/llmtrain/sweep/run_processes.h"
#include "apps/llmtrain/sweep/sweep_results.h"
#include "apps/llmtrain/sweep/sweep_runs.h"
#include "apps/llmtrain/sweep/sweep_script.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/machine/gpu.h"
#include "core/machine/machine_share.h"
#include "core/machine/processor.h"
#include "core/recipe/recipe_io.h"
#include "core/signals/stop_signals.h"
#include "parallel/run/report/comparison.h"

namespace llmtrain::app {
namespace {

struct SweepOptions {
  RunsAsked asked;
  bool slurm = false;
  SlurmFlags slurm_flags;
  std::optional<std::int64_t> jobs;
  bool dry_run = false;
  bool report = false;
  bool json = false;
};

// Runs those that can run, as many at a time as there are shares, until all have ended or somebody asks to stop.
class Sweeper {
 public:
  Sweeper(const std::string& recipe, SweepRuns& sweep, std::vector<MachineShare> shares, StopSignals& stop)
      : sweep_(sweep), shares_(std::move(shares)), stop_(stop), processes_(recipe, stop) {
    for (std::size_t share = 0; share < shares_.size(); ++share) free_.push_back(share);
    for (const SweepRun& run : sweep.runs) total_ += run.refusal.empty() ? 1 : 0;
    share_of_.resize(sweep.runs.size());
  }

  void run() {
    for (std::size_t next = 0; next < sweep_.runs.size() || processes_.count() > 0;) {
      while (next < sweep_.runs.size() && !sweep_.runs[next].refusal.empty()) ++next;
      const bool may_start = next < sweep_.runs.size() && !stop_.requested();
      if (may_start && !free_.empty()) {
        start(next++);
      } else if (processes_.count() > 0) {
        end(processes_.wait());
      } else {
        return;
      }
    }
  }

 private:
  void start(std::size_t index) {
    share_of_[index] = free_.back();
    free_.pop_back();
    log().info("run {} of {}: {}", ++started_, total_, sweep_.runs[index].name);
    forget_exit_code(sweep_.runs[index]);
    processes_.start(index, sweep_.runs[index], shares_[share_of_[index]]);
  }

  void end(const RunProcesses::End& end) {
    SweepRun& run = sweep_.runs[end.run];
    run.exit_code = end.exit_code;
    write_exit_code(run);
    free_.push_back(share_of_[end.run]);
    if (end.exit_code != 0) log().warn("{} ended with exit code {}: see {}", run.name, end.exit_code, run.log.string());
    write_file_atomically(sweep_.directory / "sweep.json", sweep_results_json(sweep_, sweep_results(sweep_)));
  }

  SweepRuns& sweep_;
  std::vector<MachineShare> shares_;
  StopSignals& stop_;
  RunProcesses processes_;
  std::vector<std::size_t> free_;      // shares
  std::vector<std::size_t> share_of_;  // each run
  std::size_t total_ = 0, started_ = 0;
};

// The GPUs that the runs may train on; none where they train on the processor.
std::vector<std::string> gpus_of(const RunsAsked& asked) {
  if (read_recipe(asked.recipe, asked.overrides).cluster.device == DeviceKind::cpu) return {};
  return visible_gpu_names(gpu_models().size(), std::getenv("CUDA_VISIBLE_DEVICES"));
}

// A page with the curves of all runs that have measured something; none where fewer than two have.
void write_page(const SweepRuns& sweep, const SweepResults& results) {
  std::vector<std::filesystem::path> directories;
  for (std::size_t i = 0; i < sweep.runs.size(); ++i)
    if (results.figures[i]) directories.push_back(sweep.runs[i].directory);
  if (directories.size() < 2) return;
  const std::filesystem::path page = sweep.directory / "sweep.html";
  write_file_atomically(page, comparison_page(compare_runs(directories)));
  log().info("the runs' curves as a web page: {}", page.string());
}

// That of the first run which did not end well.
int exit_code_of(const SweepRuns& sweep, const StopSignals& stop) {
  for (const SweepRun& run : sweep.runs)
    if (run.exit_code && *run.exit_code != 0) return *run.exit_code;
  return static_cast<int>(stop.requested() ? ExitCode::stopped : ExitCode::done);
}

void warn_of_refusals(const SweepRuns& sweep) {
  for (const SweepRun& run : sweep.runs)
    if (!run.refusal.empty()) log().warn("{} is left out: {}", run.name, run.refusal);
}

int print_array_script(SweepOptions options) {
  options.asked.of_jobs = options.slurm_flags.overrides(options.asked.recipe, options.asked.overrides);
  const SweepRuns sweep = sweep_runs(options.asked);
  warn_of_refusals(sweep);
  write_script(sweep_script(options.asked.recipe, sweep, options.jobs));
  return static_cast<int>(ExitCode::done);
}

void print_results(const SweepRuns& sweep, const SweepResults& results, bool as_json) {
  as_json ? write_json(sweep_results_json(sweep, results))
          : write_result(sweep_results_text(sweep, results, style_of_output()));
}

// Writes table and page of what runs have measured so far that another command or a job array trains.
int report_of_sweep(const SweepOptions& options) {
  SweepRuns sweep = sweep_runs(options.asked);
  read_exit_codes(sweep);
  const SweepResults results = sweep_results(sweep);
  create_folder(sweep.directory);
  write_file_atomically(sweep.directory / "sweep.json", sweep_results_json(sweep, results));
  write_page(sweep, results);
  print_results(sweep, results, options.json);
  return static_cast<int>(ExitCode::done);
}

int train_runs(const SweepOptions& options) {
  // As in `run`: never destroyed, so that no request kills the process on its way out.
  StopSignals& stop = *std::make_unique<StopSignals>().release();
  SweepRuns sweep = sweep_runs(options.asked);
  std::int64_t ranks = 1;
  for (const SweepRun& run : sweep.runs) ranks = std::max(ranks, run.ranks);
  warn_of_refusals(sweep);
  std::vector<MachineShare> shares =
      machine_shares(options.jobs.value_or(1), ranks, usable_cores(), gpus_of(options.asked));
  if (!options.dry_run) {
    create_folder(sweep.directory);
    Sweeper(options.asked.recipe, sweep, std::move(shares), stop).run();
  }
  const SweepResults results = sweep_results(sweep);
  if (!options.dry_run) write_page(sweep, results);
  print_results(sweep, results, options.json);
  return exit_code_of(sweep, stop);
}

int sweep(SweepOptions options) {
  if (options.slurm) options.asked.runs_on = RunsOn::slurm;
  if (options.report) options.asked.runs_on = RunsOn::either;
  if (options.slurm) return print_array_script(std::move(options));
  return options.report ? report_of_sweep(options) : train_runs(options);
}

void add_job_flags(CLI::App& command, SweepOptions& options) {
  command.add_option("--jobs", options.jobs, "Runs at a time: on this machine (1), or with --slurm (as Slurm decides)")
      ->type_name("N")
      ->check(whole_number_positive());
  CLI::Option* const slurm =
      command.add_flag("--slurm", options.slurm, "Print an sbatch script that trains the runs as a job array");
  for (CLI::Option* const flag : add_slurm_flags(command, options.slurm_flags)) flag->needs(slurm);
}

void add_output_flags(CLI::App& command, SweepOptions& options) {
  command
      .add_option("--run-dir", options.asked.directory,
                  "Directory of the runs' directories (default: log.directory with -sweep)")
      ->type_name("DIR");
  CLI::Option* const dry_run = command.add_flag("--dry-run", options.dry_run,
                                                "List the runs and what they have measured so far, and run nothing");
  CLI::Option* const report =
      command.add_flag("--report", options.report,
                       "Write table and page of what the runs have measured and ended with, and run nothing");
  CLI::Option* const json = command.add_flag("--json", options.json, "Print JSON");
  report->excludes(dry_run)->excludes(command.get_option("--jobs"));
  command.get_option("--slurm")->excludes(dry_run)->excludes(report)->excludes(json);
}

}  // namespace

void add_sweep(CLI::App& program, Action& action) {
  const auto options = std::make_shared<SweepOptions>();
  CLI::App* command = program.add_subcommand("sweep", "Trains a recipe with every combination of values of keys");
  add_recipe_argument(*command, options->asked.recipe)->required();
  add_set_flag(*command, options->asked.overrides);
  command->add_option("--over", options->asked.over, "Train with each of these values; repeat it for all combinations")
      ->type_name("KEY=V,V")
      ->required()
      ->allow_extra_args(false);
  command->add_option("--random", options->asked.random, "Train only so many of the combinations, drawn at random")
      ->type_name("N")
      ->check(whole_number_positive());
  command->add_option("--seed", options->asked.seed, "Number that decides which ones are drawn")
      ->type_name("N")
      ->check(whole_number())
      ->capture_default_str();
  add_job_flags(*command, *options);
  add_output_flags(*command, *options);
  command->footer(
      "Examples:\n  llmtrain sweep recipe.json --over training.learning_rate.peak=1e-4,1e-3 --over seed=1,2\n"
      "  llmtrain sweep recipe.json --over seed=1,2 --slurm > sweep.sh && sbatch sweep.sh");
  command->callback([options, &action] { action = [options] { return sweep(*options); }; });
}

}  // namespace llmtrain::app

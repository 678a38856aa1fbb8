// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/slurm/sbatch_lines.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "core/recipe/slurm/sbatch_option.h"

namespace llmtrain::app {
namespace {

// Seconds before the job's end at which Slurm sends its signal, up to a minute earlier: a twentieth of the limit. The
// run itself stops as late as its checkpoint allows, if that is before.
int signal_seconds(double limit) {
  constexpr double without_limit = 60, least = 10, most = 120;
  return static_cast<int>(limit > 0 ? std::clamp(limit / 20, least, most) : without_limit);
}

// #SBATCH lines are no shell: a name keeps what needs no quotes there.
std::string plain_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_' && c != '.'; }, '-');
  return name;
}

class Lines {
 public:
  void add(const SbatchOption& option, std::string key) { lines_.push_back({option.line(), std::move(key)}); }
  void add(std::string name, std::string value, std::string key) {
    add(SbatchOption{std::move(name), std::move(value)}, std::move(key));
  }
  void add_flag(std::string name, std::string key) { add(SbatchOption{std::move(name)}, std::move(key)); }
  void add_given(std::string name, const std::string& value, std::string key) {
    if (!value.empty()) add(std::move(name), value, std::move(key));
  }
  std::vector<SbatchLine> take() { return std::move(lines_); }

 private:
  std::vector<SbatchLine> lines_;
};

void add_gpus(Lines& lines, const Recipe& recipe, std::int64_t per_node) {
  const SlurmRecipe& slurm = recipe.launch.slurm;
  if (recipe.cluster.device != DeviceKind::cuda) return;
  const std::string count = (slurm.gpu_type.empty() ? "" : slurm.gpu_type + ":") + std::to_string(per_node);
  const std::string key = "cluster.devices_per_node";
  switch (slurm.gpus) {
    case GpuRequest::gpus_per_node:
      return lines.add("gpus-per-node", count, key);
    case GpuRequest::gres:
      return lines.add("gres", "gpu:" + count, key);
    case GpuRequest::none:
      return;
  }
}

void add_resources(Lines& lines, const Recipe& recipe, std::int64_t ranks) {
  const SlurmRecipe& slurm = recipe.launch.slurm;
  const std::int64_t nodes = recipe.cluster.nodes, per_node = (ranks + nodes - 1) / nodes;
  lines.add("nodes", std::to_string(nodes), "cluster.nodes");
  lines.add("ntasks", std::to_string(ranks), "launch.ranks");
  lines.add("ntasks-per-node", std::to_string(per_node), "launch.ranks");
  add_gpus(lines, recipe, per_node);
  if (slurm.cpus_per_task > 0)
    lines.add("cpus-per-task", std::to_string(slurm.cpus_per_task), "launch.slurm.cpus_per_task");
  lines.add_given("mem", slurm.memory, "launch.slurm.memory");
  if (slurm.exclusive) lines.add_flag("exclusive", "launch.slurm.exclusive");
  // In whole minutes, Slurm's unit.
  if (const double limit = recipe.launch.time_limit_seconds; limit > 0)
    lines.add("time", fmt::format("{:.0f}", std::ceil(limit / 60)), "launch.time_limit_seconds");
}

}  // namespace

bool is_started_by_srun(const LaunchRecipe& launch, std::int64_t ranks) {
  const SlurmRecipe& slurm = launch.slurm;
  if (slurm.launcher != JobLauncher::srun) return false;
  const bool has_container = !slurm.container.image.empty() && slurm.container.runtime == ContainerRuntime::pyxis;
  return ranks > 1 || has_container || !slurm.cpu_bind.empty() || !slurm.srun.empty();
}

std::vector<SbatchLine> sbatch_lines(const Recipe& recipe, std::int64_t ranks, const std::string& array) {
  const SlurmRecipe& slurm = recipe.launch.slurm;
  const std::string name = plain_name(recipe.name);
  Lines lines;
  lines.add("job-name", name, "name");
  lines.add_given("array", array, "");
  lines.add_given("partition", slurm.partition, "launch.slurm.partition");
  lines.add_given("account", slurm.account, "launch.slurm.account");
  lines.add_given("qos", slurm.qos, "launch.slurm.qos");
  add_resources(lines, recipe, ranks);
  // Without "B:" to the ranks of srun; mpirun's ranks are no steps of Slurm, so the script passes it on.
  lines.add("signal",
            fmt::format("{}USR1@{}", is_started_by_srun(recipe.launch, ranks) ? "" : "B:",
                        signal_seconds(recipe.launch.time_limit_seconds)),
            "launch.slurm.launcher");
  lines.add_flag(slurm.requeue_limit == 0 ? "no-requeue" : "requeue", "launch.slurm.requeue_limit");
  lines.add("open-mode", "append", "");
  lines.add("output", slurm.log.empty() ? name + (array.empty() ? "-%j.log" : "-%A_%a.log") : slurm.log,
            "launch.slurm.log");
  for (const std::string& text : slurm.sbatch)
    if (const auto option = sbatch_option(text)) lines.add(*option, "launch.slurm.sbatch");
  return lines.take();
}

}  // namespace llmtrain::app

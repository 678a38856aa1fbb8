// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/launch/launch.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain::app {
namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& reason) {
  throw Error(ExitCode::bad_recipe, file + ": " + reason);
}

std::int64_t decide_ranks(const std::string& file, const Recipe& recipe, const std::optional<Launcher>& launcher) {
  if (!launcher) return ranks_to_start(recipe);
  const auto& asked = recipe.launch.ranks;
  if (asked && *asked != launcher->ranks) {
    refuse(file, "/launch/ranks: " + std::to_string(*asked) + " differs from the " + std::to_string(launcher->ranks) +
                     " ranks that " + launcher->name + " has started; start as many, or leave it \"auto\"");
  }
  return launcher->ranks;
}

CommunicationBackend decide_backend(const std::string& file, const Recipe& recipe, std::int64_t ranks,
                                    const std::optional<Launcher>& launcher) {
  const bool is_local = recipe.launch.backend == CommunicationBackend::local;
  if (is_local && ranks > 1 && launcher) {
    refuse(file, "/launch/backend: \"local\" keeps all ranks in one process, and " + launcher->name + " has started " +
                     std::to_string(ranks) + "; use \"auto\" or \"mpi\"");
  }
  if (recipe.launch.backend == CommunicationBackend::nccl && recipe.cluster.device == DeviceKind::cpu)
    refuse(file, "/launch/backend: \"nccl\" connects GPUs, and cluster.device is \"cpu\"; use \"auto\" or \"mpi\"");
  // One rank sends nothing, so it needs no library for it.
  return ranks == 1 ? CommunicationBackend::local : recipe.launch.backend;
}

}  // namespace

std::int64_t ranks_to_start(const Recipe& recipe) {
  if (const auto asked = ranks_asked_for(recipe)) return static_cast<std::int64_t>(*asked);
  return std::max(ranks_per_replica(recipe.parallel),
                  recipe.cluster.nodes * recipe.cluster.devices_per_node.value_or(1));
}

std::optional<Launcher> launcher_of(const Recipe& recipe, const std::optional<Launcher>& started_by) {
  const bool may_be_left_over = started_by && started_by->ranks == 1 && !started_by->is_certain;
  if (may_be_left_over && ranks_asked_for(recipe).value_or(1) > 1) return std::nullopt;
  return started_by;
}

RunLaunch decide_launch(const std::string& file, Recipe& recipe, const std::optional<Launcher>& launcher) {
  RunLaunch launch;
  launch.ranks = decide_ranks(file, recipe, launcher);
  launch.backend = decide_backend(file, recipe, launch.ranks, launcher);
  // start_ranks() uses this node only; the other nodes of a job are known to its launcher.
  if (recipe.cluster.nodes > 1 && !launcher) {
    refuse(file, "/cluster/nodes: " + std::to_string(recipe.cluster.nodes) +
                     " nodes are started by srun or mpirun, not from one of them; start the run with one of these");
  }
  if (launcher) {
    launch.launcher = launcher->name;
    launch.ranks_here = launcher->ranks_here;
    launch.local_rank = launcher->local_rank;
  }
  // From here on every part of the program reads one number.
  recipe.launch.ranks = launch.ranks;
  return launch;
}

bool starts_processes(const RunLaunch& launch, const std::optional<Launcher>& launcher) {
  return launch.backend != CommunicationBackend::local && !launcher;
}

}  // namespace llmtrain::app

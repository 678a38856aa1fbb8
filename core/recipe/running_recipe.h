// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/slurm/slurm_recipe.h"

namespace llmtrain {

// The parts of a recipe (core/recipe/recipe.h) that say how a run is started and watched, and what it writes.

enum class CommunicationBackend { automatic, local, mpi, nccl };

struct LaunchRecipe {
  std::optional<std::int64_t> ranks;  // none: auto
  CommunicationBackend backend = CommunicationBackend::automatic;
  double link_delay_microseconds = 0;
  double link_megabytes_per_second = 0;  // 0: no limit
  double link_message_microseconds = 0;
  double node_link_speedup = 1;
  double layer_delay_microseconds = 0;
  double watchdog_seconds = 600;
  double time_limit_seconds = 0;  // 0: none
  std::int64_t check_replicas_every = 0;
  std::vector<std::string> network_interfaces;  // none: MPI's and NCCL's choice
  SlurmRecipe slurm;

  bool operator==(const LaunchRecipe&) const = default;
};

// What a checkpoint that cannot be written does to the run.
enum class SaveFailure { stop, go_on };

struct CheckpointRecipe {
  std::int64_t every = 0;
  std::int64_t keep = 3;
  std::int64_t keep_every = 0;
  std::int64_t keep_best = 0;
  bool save_base = false;
  bool async = true;
  SaveFailure on_failure = SaveFailure::stop;
  std::string resume = "auto";  // "auto", "never" or a checkpoint's folder

  bool operator==(const CheckpointRecipe&) const = default;
};

struct LogRecipe {
  std::string directory;
  std::int64_t every = 1;
  bool tensorboard = true;
  bool routing = false;  // with experts: routing.jsonl
  bool fp8_statistics = false;

  bool operator==(const LogRecipe&) const = default;
};

}  // namespace llmtrain

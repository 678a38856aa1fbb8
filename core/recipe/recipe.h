// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/data_recipe.h"
#include "core/recipe/model_recipe.h"
#include "core/recipe/precision_recipe.h"
#include "core/recipe/running_recipe.h"
#include "core/recipe/training_recipe.h"

namespace llmtrain {

// A resolved recipe: every default and preset is filled in. A member's initialiser is its key's fixed default; names,
// ranges, help and defaults that depend on other keys are only in the key table (core/recipe/keys/key_table.h). Sizes
// are in elements, batch sizes in sequences.

// Steps begin with `start` sequences and reach batch.global by `increment`, evenly over so many samples.
struct BatchGrowthRecipe {
  std::int64_t start = 0;
  std::int64_t increment = 0;
  std::int64_t samples = 0;

  bool operator==(const BatchGrowthRecipe&) const = default;
};

struct BatchRecipe {
  std::int64_t global = 0;
  std::int64_t micro = 0;
  std::int64_t sequence_length = 0;
  std::optional<BatchGrowthRecipe> growth{};

  bool operator==(const BatchRecipe&) const = default;
};

// How expert ranks exchange rows: each with every other one, or first among those of a node and then between nodes;
// automatic: a run chooses.
enum class AllToAll { linear, hierarchical, automatic };

struct ParallelRecipe {
  std::int64_t tensor = 1;
  bool sequence = false;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::optional<std::int64_t> expert_tensor = 1;   // none: auto, a run chooses
  std::optional<std::int64_t> expert_slices;       // none: auto, expert_tensor
  std::optional<std::int64_t> expert_overlap = 1;  // none: auto, a run chooses
  AllToAll expert_all_to_all = AllToAll::linear;
  std::optional<std::int64_t> data;  // none: auto, world ÷ the others
  std::int64_t zero_stage = 0;
  std::optional<std::int64_t> zero_shard_ranks;  // none: all data-parallel ranks
  bool overlap = true;

  bool operator==(const ParallelRecipe&) const = default;
};

enum class PipelineSchedule { breadth_first, gpipe, one_forward_one_backward, interleaved };
enum class BalanceKind { layers, blocks, list };

struct BalanceRecipe {
  BalanceKind kind = BalanceKind::layers;
  std::vector<std::int64_t> layers_per_stage;  // for list

  bool operator==(const BalanceRecipe&) const = default;
};

struct PipelineRecipe {
  PipelineSchedule schedule = PipelineSchedule::breadth_first;
  std::int64_t loops = 1;
  BalanceRecipe balance;

  bool operator==(const PipelineRecipe&) const = default;
};

// In the order in which less is kept. The last two run a layer's whole forward again; `computation` keeps what came
// from other ranks in the first one.
enum class Recompute { none, selective, computation, full };
inline bool repeats_layers(Recompute recompute) { return recompute >= Recompute::computation; }

// The ranks over which the states of each expert's matrices are cut, and those that split its products; where a run
// chooses, the most that may.
inline std::int64_t expert_slices(const ParallelRecipe& parallel) {
  return parallel.expert_slices.value_or(parallel.expert_tensor.value_or(parallel.tensor));
}
inline std::int64_t expert_tensor(const ParallelRecipe& parallel) {
  return parallel.expert_tensor.value_or(expert_slices(parallel));
}

// Whether ranks exchange activations within layers.
inline bool exchanges_activations(const ParallelRecipe& parallel) {
  return parallel.tensor > 1 || parallel.context > 1 || parallel.expert > 1 || expert_tensor(parallel) > 1;
}

// Where the optimizer's states and master weights are: with the weights, in the host's memory, or in a file of it.
enum class StatesPlace { device, host, disk };

struct OffloadRecipe {
  StatesPlace optimizer = StatesPlace::device;
  bool gradients = false;  // of stages, as soon as they are final
  bool weights = false;
  bool activations = false;
  std::optional<std::string> folder{};  // of the file; none: the run directory
  // How many stages of each pipeline rank, its last ones, keep states, gradients and weights on the device.
  std::int64_t resident_stages = 0;

  bool moves_states() const { return optimizer != StatesPlace::device; }

  bool operator==(const OffloadRecipe&) const = default;
};

// What sets keys of memory.offload and of the layout together, as published programs do.
enum class OffloadPolicy { none, zero_offload, zero_infinity, harmony, patrickstar, naive_swapping };

struct MemoryRecipe {
  Recompute recompute = Recompute::none;       // of all layers, unless the recipe lists some
  std::vector<Recompute> recompute_of_layers;  // as it lists them, by layer; those after its end keep everything
  // Memory of a device, in bytes above 1, up to 1 a share of what its profile states; the planner then recomputes.
  std::optional<double> limit;
  bool arena = false;       // a rank's tensors of a step lie at planned places of one block of memory
  std::int64_t chunks = 1;  // pieces, one after another, of the part of a block of primitives that takes most memory
  OffloadPolicy policy = OffloadPolicy::none;
  OffloadRecipe offload;

  // Whether states that the host has come to the device for each update and go back, as virtual memory would move them.
  bool swaps_states() const { return policy == OffloadPolicy::naive_swapping; }

  bool operator==(const MemoryRecipe&) const = default;
};

// cudnn: flash attention by cuDNN's kernel, on GPUs.
enum class AttentionKernel { automatic, flash, math, cudnn };

struct KernelsRecipe {
  AttentionKernel attention = AttentionKernel::automatic;
  bool cuda_graphs = false;

  bool operator==(const KernelsRecipe&) const = default;
};

enum class DeviceKind { automatic, cpu, cuda };

struct ClusterRecipe {
  std::string profile = "auto";
  std::string program = "llmtrain";
  std::int64_t nodes = 1;
  std::optional<std::int64_t> devices_per_node;  // none: auto
  DeviceKind device = DeviceKind::automatic;
  std::optional<double> price_per_device_hour;  // none: the profile's
  std::string currency;                         // of the price; empty: not said

  bool operator==(const ClusterRecipe&) const = default;
};

struct Recipe {
  std::string schema;  // "$schema", kept as it was written
  std::string name = "run";
  std::string description;
  std::int64_t seed = 1234;
  ModelRecipe model;
  DataRecipe data;
  BatchRecipe batch;
  TrainingRecipe training;
  PrecisionRecipe precision;
  ParallelRecipe parallel;
  PipelineRecipe pipeline;
  MemoryRecipe memory;
  KernelsRecipe kernels;
  ClusterRecipe cluster;
  LaunchRecipe launch;
  CheckpointRecipe checkpoint;
  LogRecipe log;

  bool operator==(const Recipe&) const = default;
};

// Whether metrics.jsonl has a row of the step, which counts from 1.
inline bool has_row(const Recipe& recipe, std::int64_t step) {
  return step == recipe.training.steps || step % recipe.log.every == 0;
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/element_type.h"
#include "core/recipe/data_recipe.h"
#include "core/recipe/model_recipe.h"
#include "core/recipe/running_recipe.h"
#include "core/recipe/training_recipe.h"

namespace llmtrain {

// A resolved recipe: every default and preset is filled in. A member's initialiser is its key's fixed default; names,
// ranges, help and defaults that depend on other keys are only in the key table (core/recipe/keys/key_table.h). Sizes
// are in elements, batch sizes in sequences.

struct BatchRecipe {
  std::int64_t global = 0;
  std::int64_t micro = 0;
  std::int64_t sequence_length = 0;

  bool operator==(const BatchRecipe&) const = default;
};

enum class DataType { fp32, bf16, fp16 };

// The element type of memory of that data type.
constexpr ElementType element_type(DataType type) {
  switch (type) {
    case DataType::fp32:
      return ElementType::float32;
    case DataType::bf16:
      return ElementType::bfloat16;
    case DataType::fp16:
      return ElementType::float16;
  }
  return ElementType::float32;
}

// What uses FP8: O0 the layers' matrix products, as in NVIDIA's Transformer Engine; from O1 on also what is stored and
// exchanged (Peng et al., arXiv 2310.18313).
enum class Fp8Level { off, o0, o1, o2, o3 };
constexpr bool multiplies_fp8(Fp8Level level) { return level != Fp8Level::off; }
constexpr bool stores_fp8(Fp8Level level) { return level > Fp8Level::o0; }

// The factor of FP8 gradients' scales before they are summed over ranks: FP8-LM's auto-scaling μ; the 1 ÷ √ranks of its
// released code; or one of the two that it compares with, 1 ÷ ranks (pre-scaling) and 1 (post-scaling).
enum class GradientScaling { automatic, inverse_root, pre, post };

// How operands of FP8 products are scaled: by their own largest magnitude, or by that of the steps before.
enum class Fp8ScalingMethod { current, delayed };

struct Fp8ScalingRecipe {
  Fp8ScalingMethod method = Fp8ScalingMethod::current;
  // How many steps' largest magnitudes delayed scaling remembers.
  std::int64_t history_steps = 1024;
  std::int64_t margin = 0;  // powers of two that scales leave for growth

  bool operator==(const Fp8ScalingRecipe&) const = default;
};

// Which linear layers FP8 levels leave in the compute type.
struct HighPrecisionRecipe {
  std::int64_t first_layers = 0;
  std::int64_t last_layers = 0;
  std::vector<std::string> parameters;  // patterns of names, in which * stands for any text
  // A layer joins them after this many steps in a row in which an operand overflows, with delayed scaling, or too many
  // sums of its FP8 gradients saturate; 0: never.
  std::int64_t fallback_steps = 0;

  bool operator==(const HighPrecisionRecipe&) const = default;
};

// By what fp16 multiplies the loss before the backward, so that small gradients do not become 0.
struct LossScaleRecipe {
  double initial = 65536;
  std::int64_t growth_steps = 2000;

  bool operator==(const LossScaleRecipe&) const = default;
};

struct PrecisionRecipe {
  DataType compute = DataType::fp32;
  DataType gradients = DataType::fp32;
  Fp8Level fp8_level = Fp8Level::off;
  Fp8ScalingRecipe fp8_scaling{};
  GradientScaling gradient_scaling = GradientScaling::automatic;
  HighPrecisionRecipe high_precision{};
  LossScaleRecipe loss_scale{};
  bool tf32 = false;  // in matrix products of fp32 on a GPU
  // Whether products have the scales of the steps before.
  bool delays_scales() const { return multiplies_fp8(fp8_level) && fp8_scaling.method == Fp8ScalingMethod::delayed; }
  // Whether products of layers, and the gradients of their weights, may leave FP8 during a run.
  bool products_may_fall_back() const { return high_precision.fallback_steps > 0 && delays_scales(); }
  bool gradients_may_fall_back() const { return high_precision.fallback_steps > 0 && stores_fp8(fp8_level); }
  bool operator==(const PrecisionRecipe&) const = default;
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

struct OffloadRecipe {
  bool optimizer = false;
  bool weights = false;
  bool activations = false;

  bool operator==(const OffloadRecipe&) const = default;
};

struct MemoryRecipe {
  Recompute recompute = Recompute::none;
  OffloadRecipe offload;

  bool operator==(const MemoryRecipe&) const = default;
};

enum class AttentionKernel { automatic, flash, math };

struct KernelsRecipe {
  AttentionKernel attention = AttentionKernel::automatic;

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

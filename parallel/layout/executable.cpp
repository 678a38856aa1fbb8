// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/executable.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/recipe/rules/planned_model.h"

namespace llmtrain {
namespace {

using Unsupported = PlannedKey;

// A key of launch that only the local backend has a use for, and the value that asks for nothing.
struct Emulated {
  const char* pointer = nullptr;
  double value = 0;
  int neutral = 0;
};

std::vector<Emulated> emulated(const LaunchRecipe& launch) {
  return {{"/launch/link_delay_microseconds", launch.link_delay_microseconds},
          {"/launch/link_megabytes_per_second", launch.link_megabytes_per_second},
          {"/launch/link_message_microseconds", launch.link_message_microseconds},
          {"/launch/node_link_speedup", launch.node_link_speedup, 1},
          {"/launch/layer_delay_microseconds", launch.layer_delay_microseconds}};
}

// Keys that only matter with another one. They are listed without it too, so that the list is whole in every recipe.
std::vector<Unsupported> only_with(bool has_other, std::vector<Unsupported> keys) {
  for (Unsupported& key : keys) key.is_wanted = key.is_wanted && has_other;
  return keys;
}

std::vector<Unsupported> unsupported_experts(const Recipe& recipe) {
  const ParallelRecipe& parallel = recipe.parallel;
  // ZeRO shards experts among those of the ranks that it shards over which hold the same ones: these ranks have to hold
  // all experts equally often. By default they are all ranks of a stage, which do.
  const std::int64_t parts = parallel.expert * expert_slices(parallel);
  const std::int64_t multiple = parts / std::gcd(parts, parallel.tensor * parallel.context);
  const std::int64_t shards = parallel.zero_shard_ranks.value_or(multiple);
  const bool has_fp8 = recipe.precision.fp8_level != Fp8Level::off;
  HighPrecisionRecipe kept = recipe.precision.high_precision;
  // With current scales it concerns gradients alone, whatever multiplies them.
  kept.fallback_steps = 0;
  std::vector<Unsupported> keys = {
      // The experts' products of a layer take their scales by rows, in every layer alike.
      {has_fp8 && kept != HighPrecisionRecipe{}, "/precision/high_precision",
       "layers in high precision beside experts in FP8", "leave it out, or set precision.fp8_level to \"off\""},
      {recipe.precision.plans_products(), "/precision/fp8_products", "\"auto\" beside experts in FP8",
       "use \"all\", or set precision.fp8_level to \"off\""},
      // They take them by rows, which are other ones in every step.
      {recipe.precision.delays_scales(), "/precision/fp8_scaling/method", "\"delayed\" beside experts in FP8",
       "use \"current\", or set precision.fp8_level to \"off\""},
      // They would say nothing of the experts' products.
      {has_fp8 && recipe.log.fp8_statistics, "/log/fp8_statistics", "statistics of experts in FP8", "set it to false"},
      // Tensors with scales would change their parts.
      {expert_slices(parallel) != parallel.expert_tensor && stores_fp8(recipe.precision.fp8_level),
       "/parallel/expert_slices", std::to_string(expert_slices(parallel)) + " with FP8 states",
       "use \"auto\", or precision.fp8_level \"O0\""},
      {shards % multiple != 0, "/parallel/zero_shard_ranks", std::to_string(shards),
       "use a multiple of " + std::to_string(multiple) +
           ", so that tensor × context × zero_shard_ranks is one of expert × expert_tensor"},
  };
  return only_with(recipe.model.moe.has_value(), std::move(keys));
}

std::vector<Unsupported> unsupported_fp8_states(const Recipe& recipe) {
  const ParallelRecipe& parallel = recipe.parallel;
  std::vector<Unsupported> keys = {
      // Their scales would be kept without an update that makes new ones.
      {!recipe.training.freeze.empty(), "/training/freeze", "frozen parameters beside FP8 gradients and states",
       "leave it out, or use precision.fp8_level \"O0\""},
      // Sums over shards and then over their copies would round twice.
      {parallel.zero_stage > 0 && parallel.zero_shard_ranks.has_value(), "/parallel/zero_shard_ranks",
       std::to_string(parallel.zero_shard_ranks.value_or(0)) + " with FP8 gradients",
       "leave it out, or use precision.fp8_level \"O0\""},
  };
  return only_with(stores_fp8(recipe.precision.fp8_level), std::move(keys));
}

std::vector<Unsupported> unsupported_dropping(const Recipe& recipe) {
  const ParallelRecipe& parallel = recipe.parallel;
  std::vector<Unsupported> keys = {
      // Kept tokens are anywhere in a sequence, so that ranks which share it would have different numbers of them.
      {parallel.context > 1, "/parallel/context", std::to_string(parallel.context) + " with training.token_dropping",
       "use 1"},
      {parallel.tensor > 1 && parallel.sequence, "/parallel/sequence", "true with training.token_dropping",
       "use false"},
      // A layer that sees a part of a sequence counts the tokens of that part.
      {recipe.model.sliding_window.has_value(), "/model/sliding_window", "a window with training.token_dropping",
       "set it to null"},
  };
  return only_with(recipe.training.token_dropping.has_value(), std::move(keys));
}

std::vector<Unsupported> unsupported_fine_tuning(const Recipe& recipe) {
  const auto& moe = recipe.model.moe;
  std::vector<Unsupported> keys = {
      // What is cut from a conversation are the answers that it trains on.
      {recipe.data.curriculum.sequence_length.has_value(), "/data/curriculum/sequence_length",
       "sequences cut short with data.fine_tuning", "set it to null"},
      // It is defined for samples of equally many tokens of a corpus; those of conversations are packed or padded.
      {recipe.data.curriculum.vocabulary_rarity.has_value(), "/data/curriculum/vocabulary_rarity",
       "an order of conversations with data.fine_tuning", "set it to null"},
      // Its texts begin with a space, and the parts of a conversation are tokenized one by one.
      {recipe.data.tokenizer.kind == TokenizerKind::sentencepiece, "/data/tokenizer",
       "\"sentencepiece\" with data.fine_tuning", "use a tokenizer.json"},
      // Padding would take the experts' capacity from tokens that count.
      {moe && moe->capacity_factor != 0, "/model/moe", "a capacity of experts with data.fine_tuning",
       "set capacity_factor to 0"},
      // A replayed routing deals out all tokens of a step, padding included.
      {moe && moe->replays(), "/model/moe", "a replayed routing with data.fine_tuning",
       "set routing_zipf and routing_trace to null"},
  };
  return only_with(recipe.data.fine_tuning.has_value(), std::move(keys));
}

// Where plans have less than runs: tensor ranks add up what both halves make at once, and one cast is of both.
std::vector<Unsupported> unsupported_parallel_residual(const Recipe& recipe) {
  const ParallelResidual residual = recipe.model.parallel_residual;
  const char* const words = residual == ParallelResidual::one_norm ? "\"one_norm\"" : "\"two_norms\"";
  std::vector<Unsupported> keys = {
      {recipe.parallel.tensor > 1, "/model/parallel_residual", std::string(words) + " with parallel.tensor above 1",
       "use \"none\", or parallel.tensor 1"},
      {multiplies_fp8(recipe.precision.fp8_level), "/model/parallel_residual",
       std::string(words) + " with precision.fp8_level", "use \"none\", or precision.fp8_level \"off\""},
  };
  return only_with(residual != ParallelResidual::none, std::move(keys));
}

// What layers compute without a kernel for GPUs, or what has not been tried there.
std::vector<Unsupported> unsupported_kernels(const Recipe& recipe) {
  const Activation activation = recipe.model.activation;
  const bool has_kernel =
      activation == Activation::gelu || activation == Activation::gelu_tanh || activation == Activation::swiglu;
  std::vector<Unsupported> keys = {
      {!has_kernel, "/model/activation", "an activation that GPUs have no kernel of",
       "use \"gelu\", \"gelu_tanh\" or \"swiglu\", or cluster.device \"cpu\""},
      {recipe.model.sliding_window.has_value(), "/model/sliding_window", "a window that GPUs have no kernel of",
       "set it to null, or use cluster.device \"cpu\""},
      {recipe.model.attention_sinks, "/model/attention_sinks", "true, which GPUs have no kernel of",
       "use false, or cluster.device \"cpu\""},
      {recipe.model.attention_scale.has_value(), "/model/attention_scale", "a factor that GPUs have no kernel of",
       "set it to null, or use cluster.device \"cpu\""},
      {recipe.model.position == Position::none, "/model/position", "\"none\" on GPUs",
       "use \"rope\" or \"learned\", or cluster.device \"cpu\""},
      {recipe.model.parallel_residual != ParallelResidual::none, "/model/parallel_residual",
       "halves of one input on GPUs", "use \"none\", or cluster.device \"cpu\""},
      {recipe.model.post_norms, "/model/post_norms", "true on GPUs", "use false, or cluster.device \"cpu\""},
      {recipe.model.embedding_scale != 1, "/model/embedding_scale", "a factor of embeddings on GPUs",
       "use 1, or cluster.device \"cpu\""}};
  return only_with(recipe.cluster.device == DeviceKind::cuda && !has_bodies(recipe.model.architecture),
                   std::move(keys));
}

// Every key that plans but does not run is listed here; a new feature removes its line.
std::vector<Unsupported> all_unsupported(const Recipe& recipe) {
  const PrecisionRecipe& precision = recipe.precision;
  const ParallelRecipe& parallel = recipe.parallel;
  const auto& offload = recipe.memory.offload;
  std::vector<Unsupported> all = {
      // Its default is parallel.tensor.
      {!recipe.model.moe && parallel.expert_tensor != parallel.tensor, "/parallel/expert_tensor",
       std::to_string(expert_tensor(parallel)) + " without experts to split", "leave it out"},
      {recipe.model.lora && multiplies_fp8(precision.fp8_level), "/model/lora", "adapters beside FP8 products",
       "set precision.fp8_level to \"off\""},
      {precision.multiplies_fp4(), "/precision/product_format", "products of 4-bit numbers", "use \"fp8\""},
      {recipe.data.pairs && !is_encoder_decoder(recipe.model.architecture), "/data/pairs",
       "pairs for a model without an encoder", "set it to null, or model.architecture to \"bart\" or \"t5\""},
      // PyTorch's caching allocator has a GPU's memory.
      {recipe.memory.arena && recipe.cluster.device == DeviceKind::cuda, "/memory/arena", "true on GPUs",
       "use false, or cluster.device \"cpu\""},
      // They are in the host's memory as they are.
      {offload.optimizer == StatesPlace::host && recipe.cluster.device == DeviceKind::cpu, "/memory/offload/optimizer",
       "true on a CPU", "use false, or \"disk\""},
      {offload.weights && recipe.cluster.device == DeviceKind::cpu, "/memory/offload/weights", "true on a CPU",
       "use false"},
      {offload.gradients && recipe.cluster.device == DeviceKind::cpu, "/memory/offload/gradients", "true on a CPU",
       "use false"},
      {offload.activations && recipe.cluster.device == DeviceKind::cpu, "/memory/offload/activations", "true on a CPU",
       "use false"},
  };
  std::ranges::move(planned_model_keys(recipe.model), std::back_inserter(all));
  for (const auto part : {unsupported_fp8_states, unsupported_experts, unsupported_dropping, unsupported_fine_tuning,
                          unsupported_parallel_residual, unsupported_kernels})
    std::ranges::move(part(recipe), std::back_inserter(all));
  return all;
}

}  // namespace

std::vector<std::string> not_executable(const Recipe& recipe) {
  std::vector<std::string> reasons;
  for (const auto& [is_wanted, pointer, value, instead] : all_unsupported(recipe))
    if (is_wanted)
      reasons.push_back(std::string(pointer) + ": " + value + " can be planned but not run yet; " + instead);
  if (recipe.launch.backend == CommunicationBackend::local) return reasons;
  for (const auto& [pointer, value, neutral] : emulated(recipe.launch))
    if (value != neutral)
      reasons.push_back(std::string(pointer) +
                        ": only the local backend emulates a machine; set launch.backend to \"local\", or this to " +
                        std::to_string(neutral));
  return reasons;
}

std::vector<std::string> keys_not_executable() {
  std::vector<std::string> pointers;
  for (const Unsupported& one : all_unsupported({})) pointers.emplace_back(one.pointer);
  for (const Emulated& one : emulated({})) pointers.emplace_back(one.pointer);
  return pointers;
}

Recipe without_training(Recipe recipe) {
  recipe.kernels.cuda_graphs = false;
  recipe.memory.offload = {};
  recipe.memory.arena = false;
  return recipe;
}

Recipe of_one_reader(Recipe recipe) {
  // One micro-batch passes every rule of meshes, whatever the recipe says.
  recipe.parallel = {};
  recipe.pipeline = {};
  recipe.launch = {};
  recipe.launch.ranks = 1;
  recipe.cluster.nodes = 1;
  recipe.batch.global = recipe.batch.micro;
  recipe.batch.growth = std::nullopt;
  // A routing trace is for training, and need not be where the model is only read.
  if (recipe.model.moe) recipe.model.moe->routing_trace = std::nullopt;
  return recipe;
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/graph/block_settings.h"
#include "core/graph/sharding.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Which tensors a program keeps between its passes: those that core/model keeps, or with other programs what
// Korthikanti et al. list (arXiv 2205.05198, section 4).
enum class KeptTensors { core_model, megatron };

// The device whose operators run: those of this program take different working memory on either kind.
enum class ComputeDevice { cpu, cuda };

// What other programs keep of the logits for the loss's backward.
enum class KeptLogits {
  widened,   // all of them in fp32
  narrow,    // those of the product, in the compute type; their gradient is a tensor of its own
  in_place,  // the same, and their gradient takes their place
  chunks,    // none: the gradients of a chunk of tokens follow its loss, as in core/model
};

enum class AttentionMethod { flash, math };

// Flash where it is requested or left open; dropout in attention needs the scores and uses the math path.
AttentionMethod attention_method(const AttentionSettings& attention, AttentionKernel kernel);

// Which program runs, and on what. By default core/model.
struct ProgramSetting {
  KeptTensors kept_tensors = KeptTensors::core_model;
  ComputeDevice device = ComputeDevice::cpu;
  AttentionKernel attention = AttentionKernel::automatic;
  // The facts below are other programs'.
  KeptLogits kept_logits = KeptLogits::widened;
  double loss_copies = 0;            // of the logits in fp32, that the loss's backward holds at least
  bool remakes_elementwise = false;  // what passes over memory make of kept tensors is made again in the backward
  bool keeps_both_orders = true;     // of FP8 operands

  // Whether core/model's modules run, rather than those of other programs.
  bool is_own() const { return kept_tensors == KeptTensors::core_model; }
};

// The tokens of a micro-batch, and how ranks divide them.
struct TokenSetting {
  std::int64_t batch = 1;            // sequences
  std::int64_t sequence_length = 1;  // tokens of a whole sequence
  std::int64_t target_length = 0;    // those of the second sequence of a sample that has two; 0: as many
  std::int64_t kept = 0;             // of each sequence, in layers that drop tokens; 0: all
  std::int64_t context = 1;          // ranks that split a sequence
  std::int64_t row_ranks = 1;        // tensor ranks that split the rows of norms and residuals (sequence parallelism)
  bool has_documents = false;        // sequences may hold several, to which attention keeps

  bool are_dropped() const { return kept > 0 && kept < sequence_length; }
  bool have_split_rows() const { return row_ranks > 1; }
  std::int64_t all() const { return batch * sequence_length; }
  // Tokens of a whole sequence of these rows, an index into Batch::rows.
  std::int64_t length_of(std::size_t rows) const {
    return rows == 0 || target_length == 0 ? sequence_length : target_length;
  }
  // Those on this rank: where features are split, and where rows are split instead (norms, residuals, and what stages
  // send to each other). Real numbers, so that a layout that does not divide can still be estimated.
  double here() const;
  double split() const;
};

// The types of numbers.
struct NumberSetting {
  DataType compute = DataType::fp32;
  Fp8Level fp8_level = Fp8Level::off;
  // With FP8:
  bool keeps_compute_inputs = false;  // keeps inputs in the compute type, as of layers that have left FP8
  bool agrees_on_scales = true;       // ranks that hold parts of an operand agree on its scale before the product
  double scale_bytes = 0;             // per FP8 element, where blocks of a tensor have scales of their own
  ProductFormat format = ProductFormat::fp8;

  bool uses_fp8() const { return multiplies_fp8(fp8_level); }
  // Bytes per element of an operand of an FP8 product, with its scales.
  double operand_bytes() const {
    return llmtrain::operand_bytes(format) + (format == ProductFormat::fp8 ? scale_bytes : 0);
  }
};

// How expert ranks exchange rows.
struct ExchangeSetting {
  std::int64_t node_ranks = 1;        // of a node that exchange rows first, where the exchange is hierarchical
  std::int64_t parts = 1;             // into which rows are cut
  bool sends_tokens_once = false;     // to each node and rank with any of a token's experts, not to each expert
  bool is_chosen = false;             // node_ranks and parts may change from micro-batch to micro-batch …
  bool tries_parts = false;           // … to other numbers of parts …
  std::int64_t tried_node_ranks = 1;  // … and to hierarchical exchanges among so many of a node first
};

// How one rank runs a block on one micro-batch.
struct PassSetting {
  ProgramSetting program{};
  TokenSetting tokens{};
  ShardDegrees shards{};
  NumberSetting numbers{};
  ExchangeSetting exchange{};
  Recompute recompute = Recompute::none;
  std::int64_t chunks = 1;  // pieces of the part of a body that takes most memory
};

// The sizes of a block's tensors on one rank in one micro-batch that all kinds of blocks have: in elements unless said
// otherwise. Real numbers, so that a layout that does not divide can still be estimated.
struct LocalShape {
  double sequences = 0;
  double sequence_length = 0;  // of the whole sequence: the keys that attention sees
  double tokens = 0;
  double split_tokens = 0;
  double hidden = 0;
  double element = 4;    // bytes per element of activations
  double fp8_input = 1;  // bytes per element of a kept input of an FP8 product

  double residual() const { return split_tokens * hidden; }
  double whole_rows() const { return element * tokens * hidden; }  // bytes
};

LocalShape local_shape(std::int64_t hidden_size, const PassSetting& setting);

// Rows of logits that the head holds at a time: as few chunks as fit into 128 MiB each, of equal size; on a
// GPU as few as fit into 1 GiB or have 4,096 rows.
std::int64_t logits_chunk_rows(std::int64_t rows, std::int64_t vocabulary, std::int64_t bytes_per_element,
                               ComputeDevice device);

// Capacity of each expert for the `tokens` that one rank routes (Hwang et al., arXiv 2206.03382): with a
// capacity_factor f above 0 top_k·⌊f·⌈tokens / experts⌉⌋; else the even share top_k·⌈tokens / experts⌉, which suffices
// for even routing, but no more than expert_limit().
// `fullest`: tokens that choose the fullest expert, where that is known; buffers of an f of 0 or below hold them.
std::int64_t expert_capacity(const MixtureOfExpertsRecipe& moe, std::int64_t tokens, std::int64_t fullest = 0);

// The most tokens that an expert takes of `tokens`: with a capacity_factor f top_k·⌊|f|·⌈tokens / experts⌉⌋, without
// limit where f is 0. Tutel's buffers are as long as that where f is above 0, and no longer than needed where it is
// below; groups of rows are never longer than needed.
std::optional<std::int64_t> expert_limit(const MixtureOfExpertsRecipe& moe, std::int64_t tokens);

// Shares of top_k that experts compute per token under even routing: `kept` are tokens, `padding` are empty slots.
struct ExpertLoad {
  double kept = 0;
  double padding = 0;
};
ExpertLoad expert_load(const MixtureOfExpertsRecipe& moe);

// Whether a router keeps what the load-importance loss needs.
inline bool uses_load_importance(const MixtureOfExpertsRecipe& moe) {
  return moe.balance_loss == BalanceLoss::load_importance && moe.balances();
}

// Numbers that ranks which share the tokens of a micro-batch add up: for each expert first choices, all choices and
// probabilities, with the load-importance loss also importance and load, and three more.
inline std::int64_t routing_totals(const MixtureOfExpertsRecipe& moe) {
  return (uses_load_importance(moe) ? 5 : 3) * moe.experts + 3;
}

}  // namespace llmtrain

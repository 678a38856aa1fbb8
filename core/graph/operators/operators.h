// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/collective.h"
#include "core/graph/graph.h"
#include "core/graph/pass_setting.h"

namespace llmtrain {

// A block is a list of operators, as one rank runs it on one micro-batch. Every quantity of a block is a fold over this
// list: FLOPs, kept tensors and working memory here, time and communication in parallel/plan/cost. A new kind of block
// is a new list and a module; the folds need no change.

// `batch` products of [rows, inner] · [inner, columns].
struct MatrixProduct {
  double rows = 0;
  double columns = 0;
  double inner = 0;
  double batch = 1;

  // A multiply-add counts as two operations.
  double flops() const { return 2 * batch * rows * columns * inner; }
};

enum class OperatorKind {
  product,           // of rows with a weight matrix; its backward is two products, for the input and for the weight
  fused_attention,   // one kernel that never stores the scores
  stored_attention,  // scores pass through memory; `product` is the one that makes them
  elementwise,       // a pass over memory
  cross_entropy,     // passes over the logits in fp32
};

// Passes over memory that programs without fused kernels make of several operators each: root-mean-square norms, the
// rotation of queries and keys, and the activation function of a gated feed-forward network with its product. Those
// over an adapter's input and result are of programs other than this one, and none where their kernels need none.
enum class FusedPass { none, rms_norm, rotation, gate, adapter_input, adapter_output };

// Traffic of a pass over memory: elements of the activations' type, and bytes of dropout masks.
struct Movement {
  double elements = 0;
  double mask_bytes = 0;
};

// A tensor that the forward computes and the backward reads, with the highest level of recompute that still keeps it.
struct SavedTensor {
  std::string name;  // "attention.query", within its block
  double bytes = 0;
  Recompute kept_through = Recompute::selective;
  std::optional<std::size_t> input{};  // which of the block's inputs it is, if any
};

// The ranks that a collective inside a block runs over; `tokens`: those that hold the tokens of one micro-batch.
// `expert_inside` and `expert_across` are the two steps of a hierarchical exchange between expert ranks.
enum class RankAxis { tensor, context, expert, expert_inside, expert_across, expert_tensor, tokens };

enum class Direction { forward, backward };

// How much of a collective's time a pass waits for.
enum class Exposure {
  whole,
  beside_product,  // beside the product that it feeds: whole, unless the program overlaps the two
  gathered_again,  // an input that the backward gathers again: mostly hidden
  beside_parts,    // its parts run beside the operators that are cut into as many
};

// A collective inside an operator.
struct Exchange {
  Collective collective{};
  RankAxis axis{};
  Direction direction{};
  std::string tensors;      // what is exchanged: "activations"
  double bytes = 0;         // of the whole tensor: what a rank holds after a gather or before a scatter
  double waited_bytes = 0;  // where ranks send different amounts: of the one for which the others wait
  double compression = 1;   // FP8 gathers send fewer bytes by this factor
  double parts = 1;         // into which it is cut, one after another
  Exposure exposure = Exposure::whole;
};

// The halves of a layer run one after another, and what works within one counts as if it were alive at once. Operators
// of neither half, an embedding's, a head's and those that drop tokens, count alone. Those of one half are adjacent.
enum class LayerHalf { none, attention, feed_forward };

// What computes an operator within its half, where something asks for it: a mixture of experts with its router and its
// shared experts.
enum class OperatorModule { none, experts };

struct Operator {
  std::string name;  // as reports print it: "feed_forward.network.up"
  LayerHalf half = LayerHalf::none;
  OperatorModule module = OperatorModule::none;
  OperatorKind kind{};
  MatrixProduct product{};              // of matrix products and attention
  double heads_per_key = 1;             // of attention: the query heads that share keys and values
  double window = 0;                    // of attention: the most keys that a query sees; 0: all before it
  bool is_causal = true;                // of attention: each query sees the keys before it alone
  double value_size = 0;                // of attention: elements of a value, where a key has others; 0: as many
  double parts = 1;                     // into which its rows are cut, one after another
  bool is_grouped = false;              // of products: those of several experts, each with rows of its own
  bool uses_fp8 = false;                // at FP8 levels, except for the head and the router
  std::optional<std::size_t> matrix{};  // of a linear layer: the place of its first weight among the block's parameters
  bool has_weight_gradient = true;      // of products: false where the weight is frozen
  bool has_backward = true;             // false where its block has none (Block::has_backward)
  bool is_backward_alone = false;       // of products: the backward makes it once, and the forward does not
  double unscaled_weight_gradient = 0;  // bytes of the largest weight's gradient, before it becomes FP8
  double flops = 0;  // model FLOPs of the forward: 2 per multiply-add; ignores causality, excludes empty slots
  Movement forward{}, backward{};
  // Elements that the backward moves to add the gradients of its operands to those that other readers have made.
  double summed_gradients = 0;
  FusedPass fused_pass = FusedPass::none;  // of passes over memory
  bool ends_micro_batch = false;           // the model's last one; the host's work for a micro-batch comes with it
  // From which level of recompute on the backward runs the forward again.
  enum class Repetition { never, full, selective_and_full, always };
  Repetition repetition = Repetition::full;
  std::vector<SavedTensor> saved{};
  // Bytes alive while it runs, in addition to saved tensors: operands in transit and gradients within its module.
  double forward_working = 0;
  double backward_working = 0;
  // Bytes that its kernels take beside these, and give back before the next operator runs: of a half the most count.
  double forward_scratch = 0;
  double backward_scratch = 0;
  // Bytes that other ranks sent in the forward, kept with Recompute::computation.
  double received = 0;
  std::vector<Exchange> exchanges{};
};

using OperatorList = std::vector<Operator>;

// The scores of causal attention that a window of so many keys leaves, as a share of those without one: 1 - (1 - w/s)².
double window_share(double sequence_length, double window);

// What the block's backward computes again: what the graph is marked with, else what the setting says.
Recompute recompute_of(const Graph& graph, std::size_t block, const PassSetting& setting);

// In the order of the forward.
OperatorList block_operators(const Graph& graph, std::size_t block, const PassSetting& setting);

// Whether the backward at this level of recompute runs the operator's forward again, and whether with its exchanges.
bool is_repeated(const Operator& item, Recompute recompute);
bool is_exchanged_again(const Operator& item, Recompute recompute);

// Model FLOPs of the forward.
double forward_flops(const OperatorList& operators);
// Model FLOPs of the backward: two products of the same size for each of the forward, but one where the weight is
// frozen.
double backward_flops(const OperatorList& operators);
// Model FLOPs of the part of the forward that the backward repeats.
double repeated_flops(const OperatorList& operators, Recompute recompute);

// Model FLOPs of a training step for one sample: matrix products and attention, forward and backward, without recompute
// and without the products that make gradients of frozen weights. A decoder's sample is one sequence of this length;
// for GPT-2 shapes 72·b·s·l·h²(1 + s/6h + V/12lh) with b = 1 (Narayanan et al., arXiv 2104.04473, without its
// recompute). `target_length`: tokens of a sample's second sequence; 0: as many. `kept_tokens`: of
// each sequence in layers that drop tokens; 0: all.
double training_flops_per_sample(const Graph& graph, std::int64_t sequence_length, std::int64_t target_length = 0,
                                 std::int64_t kept_tokens = 0);

// Bytes of the tensors that are kept between the passes.
//
// megatron: of a layer with 16-bit activations, one-byte dropout masks and GPT-2's shapes sbh(34 + 5as/h) bytes, split
// over tensor ranks as sbh(10 + 24/t + 5as/ht), with sequence parallelism sbh/t(34 + 5as/h). Selective recompute
// computes the attention scores again and keeps 34sbh, full recompute keeps 2sbh. The head keeps its two inputs and
// fp32 logits. Masks exist only with dropout; flash attention keeps one log-sum-exp per row in place of the scores. At
// FP8 levels the inputs of the layers' matrix products are kept as FP8 in both orders, and flash attention also keeps
// its 16-bit output. cpu and cuda: masks are generated again, statistics of norms are kept, the head keeps the gradient
// of its input in place of logits; selective recompute computes norms, activations and scores again.
double saved_bytes(const OperatorList& operators, Recompute recompute);
// Bytes of an input of the block among these, which other blocks may keep, too; 0 where it is not kept as it is.
double kept_input_bytes(const OperatorList& operators, Recompute recompute, std::size_t input);

// The most bytes alive while a block runs: its saved tensors, its operators' working memory, its output (forward), and
// the gradients at its output and within (backward). Other blocks' tensors are not included.
struct PassPeak {
  double forward = 0;
  double backward = 0;
};
// `output`: output_bytes() of the block (core/graph/values.h).
PassPeak pass_peak(const OperatorList& operators, Recompute recompute, double output);

}  // namespace llmtrain

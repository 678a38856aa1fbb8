// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/base/collective.h"
#include "core/graph/graph.h"
#include "core/graph/pass_setting.h"

namespace llmtrain {

// A block is one list of operators, as one rank runs it on one micro-batch. Everything that is counted of a block is a
// fold over this list: FLOPs, kept tensors and working memory here, time and communication in parallel/plan/cost. A new
// kind of block is a new list and a module; nothing that counts needs to know of it.

// `batch` products of [rows, inner] · [inner, columns].
struct MatrixProduct {
  double rows = 0;
  double columns = 0;
  double inner = 0;
  double batch = 1;
};

enum class OperatorKind {
  product,           // of rows with a weight matrix; its backward is two products, for the input and for the weight
  fused_attention,   // one kernel that never stores the scores
  stored_attention,  // scores pass through memory; `product` is the one that makes them
  elementwise,       // a pass over memory
  cross_entropy,     // passes over the logits in fp32
};

// What a pass over memory moves: elements of the activations' type, and bytes of dropout masks.
struct Movement {
  double elements = 0;
  double mask_bytes = 0;
};

// A tensor that a forward makes and the backward reads, with the largest amount of recompute that still keeps it.
struct SavedTensor {
  std::string name;  // "attention.query", within its block
  double bytes = 0;
  Recompute kept_through = Recompute::selective;
};

// The ranks that a collective inside a block runs over.
enum class RankAxis { tensor, context, expert, expert_tensor };

enum class Direction { forward, backward };

// How much of a collective a pass waits for.
enum class Exposure {
  whole,
  beside_product,  // next to the product that it feeds: whole, unless the program overlaps the two
  gathered_again,  // an input that the backward gathers once more: mostly hidden
};

// A collective inside an operator.
struct Exchange {
  Collective collective{};
  RankAxis axis{};
  Direction direction{};
  std::string tensors;     // what is exchanged: "activations"
  double bytes = 0;        // of the whole tensor: what a rank holds after a gather or before a scatter
  double compression = 1;  // FP8 gathers send so many times fewer bytes
  Exposure exposure = Exposure::whole;
};

struct Operator {
  // The path of modules to it: "feed_forward.network.up". The first part names the half of a layer; operators of one
  // module stand next to each other.
  std::string name;
  OperatorKind kind{};
  MatrixProduct product{};              // of matrix products and attention
  bool uses_fp8 = false;                // at FP8 levels; the head and the router stay in the compute type
  double unscaled_weight_gradient = 0;  // bytes of the largest weight's gradient before it becomes FP8
  double flops = 0;  // model FLOPs of the forward: 2 per multiply-add, causality and empty places not counted
  Movement forward{}, backward{};
  bool ends_micro_batch = false;  // with the loss; the host's work for a micro-batch comes with it
  // From which amount of recompute on the backward runs the forward again.
  enum class Repetition { never, full, selective_and_full };
  Repetition repetition = Repetition::full;
  std::vector<SavedTensor> saved{};
  // Bytes alive while it runs, beside saved tensors: its operands on their way and gradients within its module.
  double forward_working = 0;
  double backward_working = 0;
  std::vector<Exchange> exchanges{};
};

using OperatorList = std::vector<Operator>;

// In the order of the forward.
OperatorList block_operators(const Graph& graph, std::size_t block, const PassSetting& setting);

// Whether a backward under this amount of recompute runs the operator's forward again.
bool is_repeated(const Operator& item, Recompute recompute);

// Model FLOPs of the forward, and of what a backward repeats.
double forward_flops(const OperatorList& operators);
double repeated_flops(const OperatorList& operators, Recompute recompute);

// All tensors that the backward reads, and the bytes of those that are kept between the passes. What the recompute of
// the setting makes again is among the first.
//
// cuda: of a layer with 16-bit activations, one-byte dropout masks and GPT-2's shapes sbh(34 + 5as/h) bytes, split over
// tensor ranks as sbh(10 + 24/t + 5as/ht), with sequence parallelism sbh/t(34 + 5as/h). Selective recompute makes the
// attention's scores again and leaves 34 of it, full recompute keeps 2sbh. The head keeps its two inputs and fp32
// logits. Masks are there only with dropout; flash attention keeps a row's log-sum-exp in place of the scores. At FP8
// levels the inputs of the layers' matrix products are kept as FP8 in both orders, and flash attention keeps its 16-bit
// output besides.
// cpu: masks are made again, statistics of norms are kept, the head keeps the gradient of its input in place of logits;
// selective recompute makes norms, activations and scores again.
std::vector<SavedTensor> saved_tensors(const OperatorList& operators);
double saved_bytes(const OperatorList& operators, Recompute recompute);

// The most bytes alive while a block runs: its saved tensors, its operators' working memory, its output (forward), and
// the gradients at its output and within (backward). Other blocks' tensors are not included.
struct PassPeak {
  double forward = 0;
  double backward = 0;
};
// `boundary`: boundary_bytes() of the setting.
PassPeak pass_peak(const OperatorList& operators, Recompute recompute, double boundary);

}  // namespace llmtrain

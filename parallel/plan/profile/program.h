// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/graph/pass_setting.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Fused attention: fractions of the peak that causal attention reaches, FLOPs counted without the masked half.
struct AttentionProfile {
  double forward_fraction = 0;
  double backward_fraction = 0;
};

enum class TensorOverlap {
  none,
  products,  // gathers and scatters of sequence parallelism overlap the products that they feed (--tp-comm-overlap)
};
constexpr std::array<std::string_view, 2> tensor_overlap_words = {"none", "products"};

// Where the rates of products, attention and passes over memory come from.
enum class KernelRates {
  fitted,    // the profile's sections matrix, attention and memory, which the steps of published runs decided
  measured,  // its section operators, where it has one: for programs whose other facts were counted
};
constexpr std::array<std::string_view, 2> kernel_rates_words = {"fitted", "measured"};

struct KernelFacts {
  KernelRates rates = KernelRates::fitted;
  // The rate of attention's backward ÷ that of its forward, of which alone there are tables.
  double attention_backward = 0.7;
  // The rate that products and attention reach relative to these tables at their training_speed.
  double speed = 1;
  // Where the times of collectives inside a node come from: the profile's section node, or its section operators.
  KernelRates collectives = KernelRates::fitted;
};

// Memory traffic relative to the least that the operators need to read and write: below 1 where fusion or caches save
// some of it, above where a framework makes extra passes. All but the softmax's backward is counted in the kernels of
// Megatron-LM.
struct TrafficFacts {
  // Norms, activation functions, residuals: a fused kernel each, of bias with GELU, of bias, dropout and addition.
  double elementwise = 1.0;
  // Norms, rotations and gates that the program makes of several operators each; 0: as other elementwise passes.
  double rms_norm = 0;
  double rotation = 0;
  double gate = 0;
  // Tensors of an adapter's input, and of its result, that the program reads and writes in each direction beside the
  // products with A and B: casts to the adapter's type and back, scaling, the sum with the matrix's own result.
  double adapter_inputs = 0;
  double adapter_outputs = 0;
  // Stored attention: relative to one read and one write of the scores. The causal kernel reads those that count alone,
  // and writes all (scaled_upper_triang_masked_softmax.h).
  double softmax_forward = 0.75;
  double softmax_backward = 2.0;  // relative to two reads and one write of the scores; fitted
  // Passes over the logits in each direction: they are widened, and their maximum, difference, exponential, sum and
  // quotient are passes of their own (core/tensor_parallel/cross_entropy.py): 38 bytes forward and 14 backward, where a
  // pass has 4.
  double cross_entropy = 6.5;
  bool loss_in_fp32 = true;  // these logits are fp32; otherwise of the compute type
  // FP8 casts and transposes, apart: read in 2 bytes and written in 1, and read and written in 1 for the other order,
  // where the list has 4.
  double cast = 1.25;
  double optimizer = 1.0;  // clipping and update
  // Passes over the gradients in every backward that add them to those of earlier micro-batches, as PyTorch's autograd
  // does; 0: the products that make gradients add to them.
  double gradient_sums = 0;
};

struct OverlapFacts {
  TensorOverlap tensor = TensorOverlap::none;
  // Share of an overlapped collective's time that is not hidden; 0: only what it slows the product down by, the
  // profile's compute_slowdown.
  double exposed = 0;
  // Exposed share of the additional all-gather in the backward of sequence parallelism, which programs overlap with the
  // product of the input's gradient (Korthikanti et al., arXiv 2205.05198).
  double sequence_regather = 0.231;
  // What a pass loses of the time of gathers and reductions beside it; 0: the profile's compute_slowdown.
  double slowdown = 0;
};

struct HostFacts {
  // Host time of a forward operator, relative to the profile's: above 1 where Python makes one of many kernels, below
  // where one launch runs several.
  double launch = 1;
  // Host time to launch a backward operator, relative to a forward one: autograd replays it without Python.
  double backward = 0.143;
  // Host time of a transfer that the program waits for, relative to one that overlaps passes.
  double blocking_transfer = 2.475;
  // The host waits for each operator before it launches the next one (CUDA_LAUNCH_BLOCKING=1), so that its time comes
  // on top of the device's; otherwise it runs ahead, and the longer of both counts.
  bool synchronous = false;
  // Where pipeline ranks are on several nodes, the hosts of tensor ranks take turns with half of their work: operators
  // take 1 + tensor / 2 times as long to launch.
  bool takes_turns = false;
  // The device waits for the turns of the others, also where the host runs ahead otherwise.
  bool waits_for_turns = false;
  // Host time per parameter tensor and step, where the program walks through tensors one by one to clip gradients and
  // update weights; 0: the profile's, which is that of operators over many tensors.
  double tensor_seconds = 0;
};

struct NetworkFacts {
  // All that a node sends to others goes over so many of its adapters, where NCCL finds no paths over more; 0: over
  // all.
  std::int64_t adapters = 0;
  // The part of their bandwidth that collectives between nodes reach, where messages are small or the fabric is not the
  // profile's; 0: the profile's.
  double efficiency = 0;
};

struct DataFacts {
  // Gathers and scatters of sharded weights (ZeRO-3) between nodes reach the bandwidth of so many of a node's adapters;
  // 0: as other collectives do.
  double gather_adapters = 0;
  // Messages per parameter tensor in which ZeRO-1 and -2 move gradients and updated weights, each around a ring of all
  // ranks; 0: a few large ones, whose latency does not count.
  double tensor_messages = 0;
  // ZeRO-1 adds up whole gradients on all ranks, of which each then uses its part; otherwise it scatters their sums.
  bool all_reduces = false;
  // Bytes of an element of gradients while data ranks reduce them; 0: those that it has otherwise.
  double reduced_bytes = 0;
};

// When weights are cast to FP8.
enum class WeightCasts {
  micro_batch,  // whole weights in every pass
  step,         // whole weights in the first micro-batch, kept for the others
  shard,        // in every pass, but each rank only its shard, before the gather of ZeRO-3
};
constexpr std::array<std::string_view, 3> weight_casts_words = {"micro_batch", "step", "shard"};

struct Fp8Facts {
  // FP8 levels concern gradients and states, too (MS-AMP); otherwise matrix products and gathered activations alone,
  // with gradients and states as without FP8 (TransformerEngine, torchao).
  bool states = true;
  // Ranks that hold parts of an operand agree on its scale in every product. With scales from earlier steps, or a scale
  // for each rank's part, nothing is exchanged then.
  bool agrees_on_scales = true;
  WeightCasts weight_casts = WeightCasts::micro_batch;
  // Operands are kept for the backward in the forward's order, too, beside that of the weight gradient's product.
  bool keeps_both_orders = true;
  // Bytes of scales per FP8 element: 0 with a scale per tensor, 4/128 with an fp32 scale for 128 elements (DeepSeek-V3,
  // arXiv 2412.19437, section 3.3.2), 1/32 with MXFP8's shared exponents for 32 (OCP Microscaling Formats, section 5).
  double scale_bytes = 0;
};

struct ExpertFacts {
  // A token goes once to each node with any of its experts, and from there once to each rank with any of them; results
  // come back likewise, added up on the way (DeepEP). Otherwise as parallel.expert_all_to_all says.
  bool sends_tokens_once = false;
  // The host launches the product of each local expert on its own; otherwise those of all experts at once.
  bool launches_each = false;
};

constexpr std::array<std::string_view, 4> kept_logits_words = {"fp32", "compute", "in_place", "chunks"};

struct MemoryFacts {
  // What sequence parallelism gathers for a product stays until its backward, which need not gather it again.
  bool keeps_gathered = false;
  // Without pipeline ranks, for whose messages the host waits, it runs so many blocks ahead of the device. What
  // sequence parallelism scatters there in a forward is not reused before the collective has read it.
  double blocks_ahead = 0;
  // The activated gate of a feed-forward network stays beside the gate, where activation and product are
  // operators of their own: the product's backward reads it.
  bool keeps_activated_gate = false;
  // ZeRO-2 reduces the gradients of each block as its backward ends, and holds those of two blocks; otherwise whole
  // gradients are held until their stage is reduced.
  bool reduces_by_block = false;
  // Gradients in the compute type stay beside the sums in a wider one (precision.gradients), to which every backward
  // adds them.
  bool keeps_compute_gradients = false;
  // What passes over memory make of tensors that are kept, norms and activated values, is not kept but made again in
  // fused passes of the backward, as the partitioner of torch.compile decides.
  bool remakes_elementwise = false;
  KeptLogits logits = KeptLogits::widened;
  // All states of 16-bit weights are in bf16, of 8 bytes with 16-bit gradients: weights are their own master.
  bool narrow_states = false;
  // Device memory that the caching allocator holds beyond the tensors of passes, relative to these.
  double allocator_reserve = 0;
  // How many tensors of the logits' size in fp32 the loss's backward holds at most, beside the one that its forward
  // kept: on one rank, and where tensor ranks share the vocabulary.
  double loss_copies = 0;
  double parallel_loss_copies = 0;
};

struct StageFacts {
  // Every stage takes the passes of the median stage, as simulations with one profiled time for all stages assume.
  bool even = false;
  // Each tensor rank sends its whole copy of what passes to the next stage; otherwise each sends a part, which the
  // receivers gather. With sequence parallelism there are no copies.
  bool sends_copies = false;
};

// What programs lose that serve models (docs/inference.md): factors on the parts of passes, and what continuous
// batching costs.
struct ServingFacts {
  // Factors on the parts of passes of single tokens.
  double products = 1;
  double attention = 1;
  double movement = 1;
  double exchanges = 1;     // below 1: small sums go through kernels of the program's own, not through NCCL
  double pass_seconds = 0;  // that the host adds to each
  // A factor on products with weights of 4 bits on devices that do not multiply these, whose weights are widened while
  // they are read.
  double widened_products = 1;
  // A factor on passes of prompts.
  double prefill = 1;
  // The host's time to launch an operator of a prompt's pass, whose sizes no CUDA graph has: a pass takes at least that
  // of all its operators.
  double operator_seconds = 0;
  // The part of a prompt's pass for which the others' tokens wait; the rest of it goes with them in one pass.
  double interruption = 1;
  // What a request waits beside its own prompt's pass: for each of the others in prompts, and in passes of single
  // tokens.
  double waited_prompts = 0;
  double waited_tokens = 0.5;
  double request_seconds = 0;  // that the host adds to a request
  // The part of a device's memory that weights, passes and cache get, and the part of what weights and passes leave of
  // it that the cache gets.
  double memory = 1;
  double free_memory = 1;
  // A request begins where the cache has room for its whole answer; otherwise where it has for its prompt, so that
  // requests have the tokens of half an answer in the mean.
  bool reserves_answers = true;
};

// What the planner knows about the software that runs a recipe: a file in recipes/programs. A file states only what
// differs from the program that it is based on, or else from these values; passes over memory have other ones on CPUs
// (load_program). Those that are not counted were fitted once for all rows, over two thirds of the published
// measurements in recipes/published (scripts/score_planner --fit; every third row is held out): none of them is
// specific to one model, row or source. docs/planner.md lists the errors that remain.
struct Program {
  std::string name = "llmtrain";
  std::string description;
  std::string based_on;  // another program, whose facts this one has unless it states them; empty: none
  KernelFacts kernels;
  // By device, the part of a profile's name before the first "-": replaces the profile's attention where the program
  // has other kernels than those that the profile was fitted to.
  std::map<std::string, AttentionProfile> attention;
  TrafficFacts traffic;
  OverlapFacts overlap;
  HostFacts host;
  NetworkFacts network;
  DataFacts data;
  Fp8Facts fp8;
  ExpertFacts experts;
  MemoryFacts memory;
  StageFacts stages;
  ServingFacts serving;
  std::map<std::string, std::string> sources;  // by section: the origin of its facts

  std::optional<AttentionProfile> attention_on(const std::string& profile) const;
};

// Reads a program from JSON text; keys that it does not state keep the values of `base`. Throws Error(bad_recipe) with
// every problem, as parse_profile() does, also for a section without an entry in "sources".
Program parse_program(std::string_view text, const std::string& file, Program base = {});

// The program that `cluster.program` of a recipe names: a file (a path with a slash or ending in .json) or a name in
// `folder`, with the facts of the program that it is based on, as on `device`. llmtrain's file is of its kernels on
// GPUs; it needs none. Throws as load_profile() does, and where a program is based on one that is itself based on
// another.
Program load_program(const std::string& program, const std::filesystem::path& folder,
                     DeviceKind device = DeviceKind::cuda, const Program& base = {});

}  // namespace llmtrain

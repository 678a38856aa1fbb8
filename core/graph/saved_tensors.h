// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/sharding.h"

namespace llmtrain {

// Which operators run: they differ in what their forward keeps for the backward. `cuda` keeps what Korthikanti et al.
// list (arXiv 2205.05198, section 4); `cpu` is what core/model keeps.
enum class KernelSet { cpu, cuda };

enum class AttentionMethod { flash, math };

// Flash where it is asked for or left open, but dropout in attention needs the scores.
AttentionMethod attention_method(const ModelRecipe& model, AttentionKernel kernel);

// How one rank runs a block on one micro-batch.
struct PassSetting {
  KernelSet kernels = KernelSet::cpu;
  std::int64_t batch = 1;            // sequences
  std::int64_t sequence_length = 1;  // tokens of a whole sequence
  ShardDegrees shards;
  bool splits_sequence = false;  // sequence parallelism: norms and residuals hold tokens / tensor
  std::int64_t context = 1;      // ranks that split a sequence
  DataType compute = DataType::fp32;
  Fp8Level fp8_level = Fp8Level::off;
  AttentionMethod attention = AttentionMethod::flash;
  Recompute recompute = Recompute::none;
};

// One tensor that a forward makes and the backward reads, with the largest amount of recompute that still keeps it.
struct SavedTensor {
  std::string name;  // "attention.query", within its block
  double bytes = 0;
  Recompute kept_through = Recompute::selective;
};

// The table: every tensor that block's backward reads, on one rank. What `setting.recompute` makes again is in it too.
//
// cuda: of a layer with 16-bit activations, one-byte dropout masks and GPT-2's shapes sbh(34 + 5as/h) bytes, split over
// tensor ranks as sbh(10 + 24/t + 5as/ht), with sequence parallelism sbh/t(34 + 5as/h). Selective recompute makes the
// attention's scores again and leaves 34 of it, full recompute keeps 2sbh. The head keeps its two inputs and fp32
// logits. Masks are there only with dropout; flash attention keeps a row's log-sum-exp in place of the scores. At FP8
// levels the inputs of the layers' matrix products are kept as FP8 in both orders, because FP8 tensor cores want the
// summed axis contiguous: 2 bytes, and flash attention keeps its 16-bit output besides.
// cpu: masks are made again, statistics of norms are kept, the head keeps the gradient of its input in place of logits;
// selective recompute makes norms, activations and scores again.
std::vector<SavedTensor> saved_tensors(const Graph& graph, std::size_t block, const PassSetting& setting);

// Sum of what the recompute of the setting keeps.
double saved_bytes(const Graph& graph, std::size_t block, const PassSetting& setting);

// [tokens, hidden] as it passes from block to block: with sequence parallelism a rank's part of it.
double boundary_bytes(const ModelRecipe& model, const PassSetting& setting);

// Most bytes alive while the block runs: its saved tensors, its operators' working memory, its output (forward), and
// the gradients at its output and within (backward). Other blocks' tensors are not in it.
struct PassPeak {
  double forward = 0;
  double backward = 0;
};
PassPeak pass_peak(const Graph& graph, std::size_t block, const PassSetting& setting);

}  // namespace llmtrain

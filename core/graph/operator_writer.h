// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "core/graph/operators.h"

namespace llmtrain {

constexpr double dropout_mask_bytes = 1;  // per element, as CUDA's kernels keep it

// Writes the operators of one block: what its parts need to know, and the operators that all kinds of blocks are made
// of. Functions that append an operator return it for what is special about it; the reference is good until the next.
class OperatorWriter {
 public:
  OperatorWriter(const Graph& graph, std::size_t block, const PassSetting& setting);

  const ModelRecipe& model() const { return graph_.model; }
  const PassSetting& setting() const { return setting_; }
  const LocalShape& shape() const { return shape_; }
  bool is_cpu() const { return setting_.kernels == KernelSet::cpu; }
  bool drops() const { return model().dropout > 0; }
  std::int64_t layer() const { return graph_.blocks[block_].layer; }

  Operator& add(std::string name, OperatorKind kind);
  // A product in FP8 at FP8 levels with the parameters of these roles, as far as the block has them, as one matrix.
  Operator& linear(std::string name, const MatrixProduct& product, std::initializer_list<ParameterRole> weights);
  Operator& elementwise(std::string name, double forward_elements, double backward_elements);
  Operator& norm(std::string name);
  // Dropout on a branch and its addition to the residual stream.
  Operator& residual(std::string name);

  // Keeps a tensor of `bytes` for the backward, unless it has none.
  static void save(Operator& item, std::string name, double bytes, Recompute kept_through = Recompute::selective);
  // The CPU's modules make some tensors again under selective recompute that CUDA's keep.
  Recompute kept_on_cuda() const { return is_cpu() ? Recompute::none : Recompute::selective; }
  // Bytes of a norm's statistics of so many rows.
  double statistics_bytes(double rows) const;

  // Into the features of the tensor ranks and out of them again: the collectives around the products of a layer's half.
  void enter_features(Operator& item) const;
  void leave_features(Operator& item) const;
  // Working memory of the rows that sequence parallelism gathers: one tensor in the forward, two in the backward.
  void hold_gathered_rows(Operator& item) const;
  Exchange exchange(Collective collective, Direction direction, const char* tensors, double bytes) const;

  OperatorList take() { return std::move(operators_); }

 private:
  const Graph& graph_;
  std::size_t block_;
  const PassSetting& setting_;
  LocalShape shape_;
  OperatorList operators_;
};

// What blocks are made of.
void write_embedding(OperatorWriter& writer);
void write_attention(OperatorWriter& writer);
void write_feed_forward(OperatorWriter& writer);
void write_head(OperatorWriter& writer);

}  // namespace llmtrain

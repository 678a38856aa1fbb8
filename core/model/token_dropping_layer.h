// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "core/model/block_module.h"

namespace llmtrain {

// A layer that trains on some tokens of each sequence, PassContext::kept_tokens, which are drawn anew for each sequence
// and step without preference; the others pass it by unchanged (random-LTD: Yao et al., arXiv 2211.11586, section 3).
// Kept tokens stay in their order and keep their positions, so that attention is what it would be if the others were
// masked out. Which they are depends on seed, step, layer and the sequence's index in the global batch alone. In
// evaluation, or with as many kept tokens as there are, it is the layer itself.
class TokenDroppingLayer final : public BlockModule {
 public:
  // `inner`: the block whose tokens are dropped, drawn at `random_site`; its outputs go on from as many of its first
  // inputs, all of one axis of rows and one shape. Needs whole sequences on this rank, one document each.
  TokenDroppingLayer(std::unique_ptr<BlockModule> inner, std::uint64_t random_site);

  Output forward(Tensors inputs, const Batch& batch, const PassContext& pass) const override;
  Tensors backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                   std::unique_ptr<SavedActivations> saved) const override;

 private:
  struct Saved;

  std::unique_ptr<BlockModule> inner_;
  std::uint64_t site_;
};

// The rows of sequences that a site keeps, ascending: of each sequence kept_tokens different ones, all
// subsets being equally likely. int64, on the host.
at::Tensor kept_rows(const Sequences& all, const PassContext& pass, std::uint64_t site);

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <memory>

#include "core/model/layers/context_ranks.h"
#include "core/model/layers/tensor_ranks.h"
#include "core/model/moe/expert_ranks.h"

namespace llmtrain {

// What other ranks sent while a layer's forward ran, in the order in which it was asked for.
struct ExchangeTape {
  std::deque<at::Tensor> tensors;
  std::deque<RowNumbers> numbers;
};

// The other ranks, as layers see them whose backward runs the forward again: what they sent in the forward is kept, so
// that nothing is sent again (communication-aware checkpointing: Singh et al., arXiv 2303.06318). The
// repeated forward asks for the same things in the same order, as it computes the same numbers.
class KeptExchanges {
 public:
  // What is given outlives this; null where this rank is alone.
  KeptExchanges(const TensorRanks* tensor, const ContextRanks* context, const MixtureRanks& experts);
  ~KeptExchanges();
  KeptExchanges(const KeptExchanges&) = delete;
  KeptExchanges& operator=(const KeptExchanges&) = delete;

  // The same ranks, which live as long as this; outside of a scope they only pass calls on.
  const TensorRanks* tensor() const;
  const ContextRanks* context() const;
  MixtureRanks experts() const;

  // While it lives, calls on these ranks are kept on the tape, or answered from it, which empties it. One at a time.
  enum class Mode { keep, answer };
  class Scope {
   public:
    Scope(KeptExchanges& exchanges, Mode mode, ExchangeTape& tape);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    KeptExchanges& exchanges_;
  };

 private:
  struct Ranks;
  std::unique_ptr<Ranks> ranks_;
};

}  // namespace llmtrain

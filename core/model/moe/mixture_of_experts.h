// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/model/moe/expert_ranks.h"
#include "core/model/moe/experts.h"
#include "core/model/moe/router.h"
#include "core/model/moe/row_exchange.h"

namespace llmtrain {

// The routed experts in place of a layer's feed-forward network: each token's output is the sum of its experts' outputs
// by its gates; that of a token without a place at any of its experts is zero, so that the layer passes it on.
class MixtureOfExperts {
 public:
  // What is kept for rows that the experts compute together.
  struct SavedPart {
    ScaledRows input;  // kept where it came from other ranks
    Experts::Saved experts;

    void visit(const KeptTensorVisitor& visit) {
      input.visit(visit);
      experts.visit(visit);
    }
  };

  struct Saved {
    ExpertRouter::Saved router;
    kernels::ExpertRows map;              // this rank's rows, by part and expert
    std::optional<RowExchange> exchange;  // where other ranks have experts, or parts of those here
    std::vector<SavedPart> parts;
    at::Tensor outputs;  // [rows, H], of the experts, for the gradient of the gates

    void visit(const KeptTensorVisitor& visit) {
      router.visit(visit);
      visit_rows(map, visit);
      if (exchange) exchange->visit(visit);
      for (SavedPart& part : parts) part.visit(visit);
      visit(outputs);
    }
  };

  MixtureOfExperts(const ExpertRouter& router, const Experts& experts, const MixtureRanks& ranks)
      : router_(router), experts_(experts), ranks_(ranks) {}

  // [T, H] → [T, H]. On a GPU the host waits once where other ranks have experts or parts of them, or where the
  // products need to know the numbers of rows (kernels/moe/grouped_products.h), and else not.
  at::Tensor forward(const at::Tensor& x, const ExpertRouter::Pass& pass, Saved& saved, LayerRouting& routing) const;
  // x is the forward's input; returns its gradient. Leaves `saved` empty.
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& x, const ExpertRouter::Pass& pass, Saved& saved) const;

 private:
  ExpertRouter router_;
  Experts experts_;
  MixtureRanks ranks_;
};

}  // namespace llmtrain

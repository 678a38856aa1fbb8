// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/cost/collective_cost.h"
#include "parallel/plan/cost/roofline.h"
#include "parallel/plan/inference/pass_work.h"
#include "parallel/plan/inference/split_exchanges.h"

namespace llmtrain {

// Whether the model uses the block when it is served: not the further predictions of multi-token prediction, which are
// trained beside it.
bool is_served(const Block& block);

// The time of one pass on the busiest device, and its parts, which add up to it.
struct PassPrice {
  double product_seconds = 0;
  double attention_seconds = 0;
  double movement_seconds = 0;  // norms, activation functions, residuals, choices of tokens
  double exchange_seconds = 0;
  double host_seconds = 0;
  double weight_seconds = 0;   // that all of this waits for weights which are read meanwhile
  double exchanged_bytes = 0;  // that a device sends
  double operators = 0;        // that the host launches, one by one or as a graph

  double seconds() const {
    return product_seconds + attention_seconds + movement_seconds + exchange_seconds + host_seconds + weight_seconds;
  }
};

// Prices passes of one model on one cluster by the same operators, rooflines and collectives as training
// (parallel/plan/cost). The graph and the profile must outlive it.
class PassPricer {
 public:
  // `devices_per_node`: as CollectiveCost takes it.
  PassPricer(const Graph& graph, const ClusterProfile& profile, const PrecisionRecipe& precision,
             const ServingRequest& request, std::int64_t devices_per_node);

  // The split is one that refusal() has nothing against.
  PassPrice price(const DeviceSplit& split, const ServedPass& pass) const;

  // Bytes of an element of the layers' matrices, with its scale.
  double weight_bytes() const { return weight_bytes_; }
  // With a scale for each row of int8.
  double cached_bytes(const CachedNumbers& cached) const {
    return cached.elements * cache_bytes_ + cached.rows * cache_scale_bytes_;
  }
  DataType compute() const { return compute_; }
  double element_bytes() const { return roofline_.element_bytes(); }
  const ServingFacts& facts() const { return profile_.program.serving; }
  // The dense peak of the products of the layers' matrices.
  double peak_flops() const { return peak_; }

 private:
  Work product_work(const ServedProduct& served) const;
  Work attention_work(const ServedAttention& attention, bool is_prefill) const;
  PassPrice block_price(std::size_t block, const DeviceSplit& split, const ServedPass& pass) const;
  double exchange_seconds(const SplitExchange& exchange) const;
  double exchange_bytes(const SplitExchange& exchange) const;

  const Graph& graph_;
  const ClusterProfile& profile_;
  DataType compute_;
  Roofline roofline_;
  CollectiveCost collectives_;
  std::int64_t devices_per_node_;
  bool multiplies_fp8_ = false, widens_ = false;
  double weight_bytes_ = 2, cache_bytes_ = 2, cache_scale_bytes_ = 0, peak_ = 0;
};

}  // namespace llmtrain

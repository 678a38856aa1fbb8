// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/routing_sums.h"
#include "core/model/pass/batch.h"
#include "core/model/pass/pass_context.h"
#include "kernels/sequence_part.h"

namespace llmtrain {

// The experts of a pass's tokens: what its routers choose is written down, or what another pass's have chosen takes the
// place of their own choices (rollout routing replay: Ma et al., arXiv 2510.11370, section 4). Gates are always those
// of the pass's own routers, over the experts that are used.
class PassRouting {
 public:
  // Samples tell the experts of the rows that a rank has alone, and −1 where the router is to choose.
  enum class Use { record, replay, replay_samples };
  // By the layer's index in the model, int64 [rows of the pass, top_k], best first; on the CPU, or of samples
  // where the pass is.
  using Layers = std::map<std::int64_t, at::Tensor>;

  explicit PassRouting(Use use, Layers layers = {}) : use_(use), layers_(std::move(layers)) {}

  bool replays() const { return use_ != Use::record; }
  bool leaves_choices() const { return use_ == Use::replay_samples; }
  const Layers& layers() const { return layers_; }

  // The experts of those of the pass's rows that are at hand, `count` in number: [count, top_k]. Undefined for a layer
  // of which nothing is known, whose router chooses.
  at::Tensor of(std::int64_t layer, const kernels::RowsAtHand& at_hand, std::int64_t count) const;
  // Writes down what the rows at hand have chosen, of all `rows` of the pass; those that are elsewhere have −1.
  void record(std::int64_t layer, const at::Tensor& experts, const kernels::RowsAtHand& at_hand, std::int64_t rows);

 private:
  Use use_;
  Layers layers_;
};

// A pass in which tokens go to the experts that their samples tell (BatchField::routed_experts), where they tell some
// and the pass has no routing of its own; else the pass as it is.
class RoutedPass {
 public:
  // `layers`: those of the whole model that have experts, by their indices. The pass outlives this.
  RoutedPass(const std::vector<std::int64_t>& layers, const Batch& batch, const PassContext& pass);
  RoutedPass(const RoutedPass&) = delete;
  RoutedPass& operator=(const RoutedPass&) = delete;

  const PassContext& context() const { return own_ ? *own_ : given_; }

 private:
  const PassContext& given_;
  std::optional<PassRouting> routing_;
  std::optional<PassContext> own_;
};

// The indices of the model's layers with experts.
std::vector<std::int64_t> indices_of_experts(const Graph& graph);

// What a pass has recorded of `count` of its rows, from `first` on.
std::vector<TokenExperts> experts_of_rows(const PassRouting& routing, std::int64_t first, std::int64_t count);

// Throws Error(bad_data) that says where the experts of `rows` tokens are not such as this model's routers choose.
void require_routing(const Graph& graph, std::span<const TokenExperts> experts, std::int64_t rows);

// For a pass over these tokens alone; what require_routing() accepts.
PassRouting replay_of(const Graph& graph, std::span<const TokenExperts> experts);

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/pass_routing.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace llmtrain {
namespace {

std::vector<const LayerSettings*> layers_with_experts(const Graph& graph) {
  std::vector<const LayerSettings*> found;
  for (const Block& block : graph.blocks)
    if (const LayerSettings* layer = block.layer(); layer != nullptr && layer->feed_forward.experts)
      found.push_back(layer);
  return found;
}

void require_count(const std::string& where, std::size_t found, std::size_t wanted, const std::string& of_what) {
  if (found == wanted) return;
  throw Error(ExitCode::bad_data,
              where + " has " + std::to_string(found) + " entries; must be " + std::to_string(wanted) + ", " + of_what);
}

void require_experts(const std::string& where, const std::vector<std::int64_t>& chosen,
                     const MixtureOfExpertsRecipe& of_layer) {
  require_count(where, chosen.size(), static_cast<std::size_t>(of_layer.top_k),
                "as many as model.moe.top_k, of the experts that the token goes to");
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::string expert = std::to_string(chosen[i]);
    if (chosen[i] < 0 || chosen[i] >= of_layer.experts)
      throw Error(ExitCode::bad_data, where + " has the expert " + expert + "; must be in [0, model.moe.experts = " +
                                          std::to_string(of_layer.experts) + ")");
    if (std::count(chosen.begin(), chosen.end(), chosen[i]) > 1)
      throw Error(ExitCode::bad_data, where + " has the expert " + expert + " twice; must be different experts");
  }
}

}  // namespace

at::Tensor PassRouting::of(std::int64_t layer, const kernels::RowsAtHand& at_hand, std::int64_t count) const {
  const auto found = layers_.find(layer);
  if (found == layers_.end()) return {};
  const at::Tensor& all = found->second;
  if (use_ == Use::replay_samples) return all.narrow(0, at_hand.first, count);
  const at::Tensor own = at::empty({count, all.size(1)}, all.options());
  for (const kernels::RowRun& run : at_hand.runs(count))
    own.narrow(0, run.row, run.length).copy_(all.narrow(0, run.whole_row, run.length));
  return own;
}

void PassRouting::record(std::int64_t layer, const at::Tensor& experts, const kernels::RowsAtHand& at_hand,
                         std::int64_t rows) {
  const at::Tensor own = experts.cpu();
  at::Tensor& all = layers_[layer];
  all = at::full({rows, own.size(1)}, -1, own.options());
  for (const kernels::RowRun& run : at_hand.runs(own.size(0)))
    all.narrow(0, run.whole_row, run.length).copy_(own.narrow(0, run.row, run.length));
}

RoutedPass::RoutedPass(const std::vector<std::int64_t>& layers, const Batch& batch, const PassContext& pass)
    : given_(pass) {
  const at::Tensor& told = batch.field(BatchField::routed_experts);
  if (!told.defined() || pass.routing != nullptr || layers.empty()) return;
  PassRouting::Layers of_layers;
  const std::int64_t top_k = told.size(1) / static_cast<std::int64_t>(layers.size());
  for (std::int64_t place = 0; const std::int64_t layer : layers)
    of_layers[layer] = told.narrow(1, top_k * place++, top_k);
  routing_.emplace(PassRouting::Use::replay_samples, std::move(of_layers));
  own_ = pass;
  own_->routing = &*routing_;
}

std::vector<std::int64_t> indices_of_experts(const Graph& graph) {
  std::vector<std::int64_t> indices;
  for (const LayerSettings* layer : layers_with_experts(graph)) indices.push_back(layer->index);
  return indices;
}

std::vector<TokenExperts> experts_of_rows(const PassRouting& routing, std::int64_t first, std::int64_t count) {
  std::vector<TokenExperts> result(static_cast<std::size_t>(count));
  for (const auto& [layer, experts] : routing.layers()) {
    const std::int64_t top_k = experts.size(1);
    const auto* row = experts.const_data_ptr<std::int64_t>() + first * top_k;
    for (TokenExperts& token : result) {
      token.emplace_back(row, row + top_k);
      row += top_k;
    }
  }
  return result;
}

void require_routing(const Graph& graph, std::span<const TokenExperts> experts, std::int64_t rows) {
  const std::vector<const LayerSettings*> layers = layers_with_experts(graph);
  const std::string name = "routed_experts";
  if (layers.empty()) throw Error(ExitCode::bad_data, name + ": the model has no layer with experts; leave it out");
  require_count(name, experts.size(), static_cast<std::size_t>(rows),
                "of all tokens but the last, which no other follows");
  for (std::size_t token = 0; token < experts.size(); ++token) {
    const std::string of_token = name + "[" + std::to_string(token) + "]";
    require_count(of_token, experts[token].size(), layers.size(), "of the layers with experts");
    for (std::size_t i = 0; i < layers.size(); ++i)
      require_experts(of_token + "[" + std::to_string(i) + "]", experts[token][i], *layers[i]->feed_forward.experts);
  }
}

PassRouting replay_of(const Graph& graph, std::span<const TokenExperts> experts) {
  PassRouting::Layers layers;
  std::size_t place = 0;
  for (const LayerSettings* layer : layers_with_experts(graph)) {
    const std::int64_t top_k = layer->feed_forward.experts->top_k;
    const at::Tensor of_layer = at::empty({std::ssize(experts), top_k}, at::kLong);
    auto* row = of_layer.mutable_data_ptr<std::int64_t>();
    for (const TokenExperts& token : experts) row = std::ranges::copy(token[place], row).out;
    layers[layer->index] = of_layer;
    ++place;
  }
  return PassRouting(PassRouting::Use::replay, std::move(layers));
}

}  // namespace llmtrain

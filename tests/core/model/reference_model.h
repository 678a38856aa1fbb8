// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain::test {

using NamedTensors = std::map<std::string, at::Tensor>;

// What a dropout site multiplies its activation of this shape with; undefined where it drops nothing.
using DropoutMasks = std::function<at::Tensor(const std::string& site, at::IntArrayRef shape)>;

// x [B, S, in] times the transpose of a weight [out, in].
using Product = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight)>;
at::Tensor plain_product(const at::Tensor& x, const at::Tensor& weight);

// The decoder as its papers write it, one plain operator after the other in float64, for LibTorch's autograd to
// differentiate. It shares nothing with core/model but the parameters' names and the sites'.
class ReferenceModel {
 public:
  // `product` is that of the linear layers within layers.
  ReferenceModel(const ModelRecipe& model, NamedTensors parameters, DropoutMasks masks = {},
                 Product product = plain_product);

  // Where tokens go in place of their routers' choices, int64 [T, top_k] by the layer's prefix, such as "layers.0.".
  void use_experts(NamedTensors experts) { experts_ = std::move(experts); }

  at::Tensor embed(const at::Tensor& tokens) const;                         // [B, S] → [B, S, H]
  at::Tensor layer(std::int64_t index, const at::Tensor& x) const;          // [B, S, H] → [B, S, H]
  at::Tensor logits(const at::Tensor& x) const;                             // [B, S, H] → [B, S, V]
  at::Tensor losses(const at::Tensor& x, const at::Tensor& targets) const;  // [B, S, H], [B, S] → [B, S]
  at::Tensor losses_of(const at::Tensor& tokens, const at::Tensor& targets) const;
  // The routers' losses with their coefficients, and the tokens' choices without a place, of all passes so far.
  const at::Tensor& router_losses() const { return router_losses_; }
  std::int64_t dropped() const { return dropped_; }

 private:
  const at::Tensor& parameter(const std::string& name) const { return parameters_.at(name); }
  // The linear layers of these names, which have the same input, as one matrix: their outputs side by side.
  at::Tensor linear(const at::Tensor& x, const std::vector<std::string>& names) const;
  // The same with the weight and bias of one expert.
  at::Tensor expert_linear(const at::Tensor& x, const std::string& name, std::int64_t expert) const;
  at::Tensor activate(const at::Tensor& up, const at::Tensor& gate) const;
  at::Tensor dense_network(const at::Tensor& x, const std::string& name) const;
  at::Tensor expert_network(const at::Tensor& x, const std::string& name, std::int64_t expert) const;
  at::Tensor router_logits(const at::Tensor& rows, const std::string& name) const;
  at::Tensor mixture(const at::Tensor& rows, const std::string& prefix) const;
  at::Tensor load_importance(const at::Tensor& logits, const at::Tensor& noisy) const;
  void add_router_losses(const at::Tensor& logits, const at::Tensor& noisy,
                         const std::vector<std::vector<std::int64_t>>& chosen) const;
  at::Tensor norm(const at::Tensor& x, const std::string& name) const;
  at::Tensor root_mean_square(const at::Tensor& x) const;
  at::Tensor drop(const at::Tensor& x, const std::string& site) const;
  at::Tensor rotate(const at::Tensor& x, double theta) const;
  at::Tensor heads_of(const at::Tensor& flat, const std::string& norm, double theta) const;
  at::Tensor attention(const at::Tensor& x, const std::string& prefix) const;
  at::Tensor feed_forward(const at::Tensor& x, const std::string& prefix) const;

  ModelRecipe model_;
  NamedTensors parameters_;
  DropoutMasks masks_;
  Product product_;
  NamedTensors experts_;
  mutable at::Tensor router_losses_;
  mutable std::int64_t dropped_ = 0;
};

}  // namespace llmtrain::test

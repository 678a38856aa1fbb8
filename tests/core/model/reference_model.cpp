// SPDX-License-Identifier: Apache-2.0
#include "tests/core/model/reference_model.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

namespace llmtrain::test {

at::Tensor plain_product(const at::Tensor& x, const at::Tensor& weight) { return at::matmul(x, weight.t()); }

ReferenceModel::ReferenceModel(const ModelRecipe& model, NamedTensors parameters, DropoutMasks masks, Product product)
    : model_(model), parameters_(std::move(parameters)), masks_(std::move(masks)), product_(std::move(product)) {}

at::Tensor ReferenceModel::drop(const at::Tensor& x, const std::string& site) const {
  const at::Tensor mask = masks_ ? masks_(site, x.sizes()) : at::Tensor();
  return mask.defined() ? x * mask : x;
}

at::Tensor ReferenceModel::linear(const at::Tensor& x, const std::vector<std::string>& names) const {
  std::vector<at::Tensor> weights, biases;
  for (const std::string& name : names) {
    weights.push_back(parameter(name + ".weight"));
    if (parameters_.count(name + ".bias") != 0) biases.push_back(parameter(name + ".bias"));
  }
  const at::Tensor y = product_(x, at::cat(weights));
  return biases.empty() ? y : y + at::cat(biases);
}

at::Tensor ReferenceModel::root_mean_square(const at::Tensor& x) const {
  return x / ((x * x).mean(-1, true) + model_.norm_eps).sqrt();
}

at::Tensor ReferenceModel::norm(const at::Tensor& x, const std::string& name) const {
  const at::Tensor centred = model_.norm == NormKind::layernorm ? x - x.mean(-1, true) : x;
  const at::Tensor y = root_mean_square(centred) * parameter(name + ".weight");
  return parameters_.count(name + ".bias") != 0 ? y + parameter(name + ".bias") : y;
}

// Pair (i, i + D/2) of position p turns by p · theta^(−2i/D); the product keeps tables of sines in fp32.
at::Tensor ReferenceModel::rotate(const at::Tensor& x) const {
  if (model_.position != Position::rope) return x;
  const std::int64_t half = model_.head_dim / 2;
  const at::Tensor positions = at::arange(x.size(1), x.options()).view({-1, 1, 1});
  const at::Tensor exponents = at::arange(half, x.options()) * (-2.0 / static_cast<double>(model_.head_dim));
  const at::Tensor angles = positions * at::pow(at::full({}, model_.rope_theta, x.options()), exponents);
  const at::Tensor cosine = angles.cos().to(at::kFloat).to(at::kDouble);
  const at::Tensor sine = angles.sin().to(at::kFloat).to(at::kDouble);
  const at::Tensor first = x.slice(-1, 0, half), second = x.slice(-1, half);
  return at::cat({first * cosine - second * sine, second * cosine + first * sine}, -1);
}

// Queries or keys.
at::Tensor ReferenceModel::heads_of(const at::Tensor& flat, const std::string& norm) const {
  at::Tensor heads = flat.unflatten(-1, {-1, model_.head_dim});
  if (model_.qk_norm) heads = root_mean_square(heads) * parameter(norm + ".weight");
  return rotate(heads);
}

at::Tensor ReferenceModel::attention(const at::Tensor& x, const std::string& prefix) const {
  const std::string path = prefix + "attention.";
  const std::int64_t queries = model_.heads * model_.head_dim, keys_or_values = model_.kv_heads * model_.head_dim;
  const std::vector<at::Tensor> parts = linear(x, {path + "query", path + "key", path + "value"})
                                            .split_with_sizes({queries, keys_or_values, keys_or_values}, -1);
  const at::Tensor query = heads_of(parts[0], path + "query_norm"), key = heads_of(parts[1], path + "key_norm");
  const at::Tensor value = parts[2].unflatten(-1, {-1, model_.head_dim});
  const std::int64_t length = x.size(1), queries_per_key = model_.heads / model_.kv_heads;
  const at::Tensor later = at::ones({length, length}, at::kBool).triu(1);
  std::vector<at::Tensor> probabilities;
  for (std::int64_t head = 0; head < model_.heads; ++head) {
    const at::Tensor keys = key.select(2, head / queries_per_key);
    const at::Tensor scores =
        at::matmul(query.select(2, head), keys.transpose(1, 2)) / std::sqrt(static_cast<double>(model_.head_dim));
    probabilities.push_back(scores.masked_fill(later, -std::numeric_limits<double>::infinity()).softmax(-1));
  }
  const at::Tensor kept = drop(at::stack(probabilities, 1), prefix + "attention.probabilities");
  std::vector<at::Tensor> heads;
  for (std::int64_t head = 0; head < model_.heads; ++head)
    heads.push_back(at::matmul(kept.select(1, head), value.select(2, head / queries_per_key)));
  return linear(at::cat(heads, -1), {path + "output"});
}

at::Tensor ReferenceModel::feed_forward(const at::Tensor& x, const std::string& prefix) const {
  const bool is_gated = model_.activation == Activation::swiglu;
  const std::string gate_name = prefix + "ffn.gate", up_name = prefix + "ffn.up";
  const at::Tensor both = is_gated ? linear(x, {gate_name, up_name}) : linear(x, {up_name});
  const at::Tensor up = is_gated ? both.chunk(2, -1)[1] : both;
  at::Tensor activated;
  switch (model_.activation) {
    case Activation::gelu:
      activated = up * 0.5 * (1 + (up / std::numbers::sqrt2).erf());
      break;
    case Activation::gelu_tanh:
      activated = up * 0.5 * (1 + ((up + 0.044715 * up * up * up) * std::sqrt(2 / std::numbers::pi)).tanh());
      break;
    case Activation::swiglu: {
      const at::Tensor gate = both.chunk(2, -1)[0];
      activated = gate / (1 + (-gate).exp()) * up;
      break;
    }
  }
  return linear(activated, {prefix + "ffn.down"});
}

at::Tensor ReferenceModel::embed(const at::Tensor& tokens) const {
  at::Tensor x = at::one_hot(tokens, model_.vocab_size).to(at::kDouble).matmul(parameter("embedding.token.weight"));
  if (model_.position == Position::learned) x = x + parameter("embedding.position.weight").slice(0, 0, tokens.size(1));
  return drop(x, "embedding");
}

at::Tensor ReferenceModel::layer(std::int64_t index, const at::Tensor& x) const {
  const std::string prefix = "layers." + std::to_string(index) + ".";
  const at::Tensor attended = attention(norm(x, prefix + "attention_norm"), prefix);
  const at::Tensor middle = x + drop(attended, prefix + "attention.residual");
  return middle + drop(feed_forward(norm(middle, prefix + "ffn_norm"), prefix), prefix + "ffn.residual");
}

at::Tensor ReferenceModel::logits(const at::Tensor& x) const {
  const at::Tensor& weight = parameter(model_.tie_embeddings ? "embedding.token.weight" : "head.weight");
  return at::matmul(norm(x, "final_norm"), weight.t());
}

at::Tensor ReferenceModel::losses(const at::Tensor& x, const at::Tensor& targets) const {
  const at::Tensor all = logits(x);
  return all.logsumexp(-1) - all.gather(-1, targets.unsqueeze(-1)).squeeze(-1);
}

at::Tensor ReferenceModel::losses_of(const at::Tensor& tokens, const at::Tensor& targets) const {
  at::Tensor x = embed(tokens);
  for (std::int64_t index = 0; index < model_.layers; ++index) x = layer(index, x);
  return losses(x, targets);
}

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
#include "tests/core/model/reference_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace llmtrain::test {

at::Tensor plain_product(const at::Tensor& x, const at::Tensor& weight) { return at::matmul(x, weight.t()); }

ReferenceModel::ReferenceModel(const ModelRecipe& model, NamedTensors parameters, DropoutMasks masks, Product product)
    : model_(model),
      parameters_(std::move(parameters)),
      masks_(std::move(masks)),
      product_(std::move(product)),
      router_losses_(at::zeros({}, at::kDouble)) {}

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

at::Tensor ReferenceModel::expert_linear(const at::Tensor& x, const std::string& name, std::int64_t expert) const {
  const at::Tensor y = product_(x.unsqueeze(0), parameter(name + ".weight")[expert]).squeeze(0);
  return parameters_.count(name + ".bias") != 0 ? y + parameter(name + ".bias")[expert] : y;
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
at::Tensor ReferenceModel::rotate(const at::Tensor& x, double theta) const {
  if (model_.position != Position::rope) return x;
  const std::int64_t half = model_.head_dim / 2;
  const at::Tensor positions = at::arange(x.size(1), x.options()).view({-1, 1, 1});
  const at::Tensor exponents = at::arange(half, x.options()) * (-2.0 / static_cast<double>(model_.head_dim));
  const at::Tensor angles = positions * at::pow(at::full({}, theta, x.options()), exponents);
  const at::Tensor cosine = angles.cos().to(at::kFloat).to(at::kDouble);
  const at::Tensor sine = angles.sin().to(at::kFloat).to(at::kDouble);
  const at::Tensor first = x.slice(-1, 0, half), second = x.slice(-1, half);
  return at::cat({first * cosine - second * sine, second * cosine + first * sine}, -1);
}

// Queries or keys.
at::Tensor ReferenceModel::heads_of(const at::Tensor& flat, const std::string& norm, double theta) const {
  at::Tensor heads = flat.unflatten(-1, {-1, model_.head_dim});
  if (model_.qk_norm) heads = root_mean_square(heads) * parameter(norm + ".weight");
  return rotate(heads, theta);
}

at::Tensor ReferenceModel::attention(const at::Tensor& x, const std::string& prefix) const {
  const std::string path = prefix + "attention.";
  const std::int64_t queries = model_.heads * model_.head_dim, keys_or_values = model_.kv_heads * model_.head_dim;
  const std::vector<at::Tensor> parts = linear(x, {path + "query", path + "key", path + "value"})
                                            .split_with_sizes({queries, keys_or_values, keys_or_values}, -1);
  const auto& window = model_.sliding_window;
  const bool is_local = window && window->is_local(std::stoll(prefix.substr(std::string("layers.").size())));
  const double theta = is_local ? window->rope_theta : model_.rope_theta;
  const at::Tensor query = heads_of(parts[0], path + "query_norm", theta);
  const at::Tensor key = heads_of(parts[1], path + "key_norm", theta);
  const at::Tensor value = parts[2].unflatten(-1, {-1, model_.head_dim});
  const std::int64_t length = x.size(1), queries_per_key = model_.heads / model_.kv_heads;
  at::Tensor unseen = at::ones({length, length}, at::kBool).triu(1);
  if (is_local) unseen = unseen.logical_or(at::ones({length, length}, at::kBool).tril(-window->tokens));
  const double scale = model_.attention_scale.value_or(1 / std::sqrt(static_cast<double>(model_.head_dim)));
  std::vector<at::Tensor> probabilities;
  for (std::int64_t head = 0; head < model_.heads; ++head) {
    const at::Tensor keys = key.select(2, head / queries_per_key);
    at::Tensor scores = at::matmul(query.select(2, head), keys.transpose(1, 2)) * scale;
    scores = scores.masked_fill(unseen, -std::numeric_limits<double>::infinity());
    if (model_.attention_sinks)
      scores = at::cat({scores, parameter(path + "sinks")[head].expand({scores.size(0), length, 1})}, -1);
    probabilities.push_back(scores.softmax(-1).narrow(-1, 0, length));
  }
  const at::Tensor kept = drop(at::stack(probabilities, 1), prefix + "attention.probabilities");
  std::vector<at::Tensor> heads;
  for (std::int64_t head = 0; head < model_.heads; ++head)
    heads.push_back(at::matmul(kept.select(1, head), value.select(2, head / queries_per_key)));
  return linear(at::cat(heads, -1), {path + "output"});
}

at::Tensor ReferenceModel::activate(const at::Tensor& up, const at::Tensor& gate) const {
  switch (model_.activation) {
    case Activation::gelu:
      return up * 0.5 * (1 + (up / std::numbers::sqrt2).erf());
    case Activation::gelu_tanh:
      return up * 0.5 * (1 + ((up + 0.044715 * up * up * up) * std::sqrt(2 / std::numbers::pi)).tanh());
    case Activation::relu:
      return up.clamp_min(0);
    case Activation::squared_relu:
      return up.clamp_min(0).square();
    case Activation::swiglu:
      return gate / (1 + (-gate).exp()) * up;
    case Activation::geglu:
      return gate * 0.5 * (1 + (gate / std::numbers::sqrt2).erf()) * up;
    case Activation::geglu_tanh:
      return gate * 0.5 * (1 + ((gate + 0.044715 * gate * gate * gate) * std::sqrt(2 / std::numbers::pi)).tanh()) * up;
    case Activation::clamped_swiglu:
      break;
  }
  const at::Tensor clamped = gate.clamp_max(7);
  return (up.clamp(-7, 7) + 1) * clamped / (1 + (-1.702 * clamped).exp());
}

at::Tensor ReferenceModel::dense_network(const at::Tensor& x, const std::string& name) const {
  if (!is_gated(model_.activation)) return linear(activate(linear(x, {name + ".up"}), at::Tensor()), {name + ".down"});
  const std::vector<at::Tensor> both = linear(x, {name + ".gate", name + ".up"}).chunk(2, -1);
  return linear(activate(both[1], both[0]), {name + ".down"});
}

at::Tensor ReferenceModel::expert_network(const at::Tensor& x, const std::string& name, std::int64_t expert) const {
  const bool gated = is_gated(model_.activation);
  const at::Tensor gate = gated ? expert_linear(x, name + ".gate", expert) : at::Tensor();
  return expert_linear(activate(expert_linear(x, name + ".up", expert), gate), name + ".down", expert);
}

// The loss that V-MoE calls auxiliary: half the squares of both coefficients of variation. `noisy` is what a token's
// experts are chosen by.
at::Tensor ReferenceModel::load_importance(const at::Tensor& logits, const at::Tensor& noisy) const {
  const auto square_of_variation = [](const at::Tensor& values) {
    return (values.std(0, false) / values.mean()).square();
  };
  const double deviation = model_.moe->gate_noise / static_cast<double>(model_.moe->experts);
  const at::Tensor least = std::get<0>(noisy.topk(model_.moe->top_k)).amin(-1, true);
  const at::Tensor chances = 0.5 * (1 + ((logits - least) / (deviation * std::numbers::sqrt2)).erf());
  return (square_of_variation(logits.softmax(-1).sum(0)) + square_of_variation(chances.sum(0))) / 2;
}

void ReferenceModel::add_router_losses(const at::Tensor& logits, const at::Tensor& noisy,
                                       const std::vector<std::vector<std::int64_t>>& chosen) const {
  const MixtureOfExpertsRecipe& moe = *model_.moe;
  const at::Tensor mean_probability = noisy.softmax(-1).mean(0);
  if (moe.balance_loss == BalanceLoss::load_importance)
    router_losses_ = router_losses_ + moe.balance_coefficient * load_importance(logits, noisy);
  if (moe.balance_loss == BalanceLoss::gshard)
    for (const std::vector<std::int64_t>& experts : chosen)
      router_losses_ = router_losses_ + moe.balance_coefficient * static_cast<double>(moe.experts) *
                                            mean_probability[experts.front()] / static_cast<double>(chosen.size());
  router_losses_ = router_losses_ + moe.z_coefficient * noisy.logsumexp(-1).square().mean();
}

at::Tensor ReferenceModel::router_logits(const at::Tensor& rows, const std::string& name) const {
  if (model_.moe->router == Router::linear) return plain_product(rows, parameter(name + ".weight"));
  const auto direction = [](const at::Tensor& x) { return x / (x * x).sum(-1, true).sqrt(); };
  const at::Tensor cosines = at::matmul(direction(plain_product(rows, parameter(name + "_projection.weight"))),
                                        direction(parameter(name + ".weight")).t());
  return cosines * (2 * parameter(name + ".temperature").exp()).clamp_max(100);
}

// Token by token: each asks its experts for a place, all first choices before all second ones.
at::Tensor ReferenceModel::mixture(const at::Tensor& rows, const std::string& prefix) const {
  const MixtureOfExpertsRecipe& moe = *model_.moe;
  const at::Tensor logits = router_logits(drop(rows, prefix + "ffn.router"), prefix + "ffn.router");
  const at::Tensor noise = masks_ ? masks_(prefix + "ffn.router.noise", logits.sizes()) : at::Tensor();
  const at::Tensor noisy = noise.defined() ? logits + noise : logits, probabilities = noisy.softmax(-1);
  std::vector<std::vector<std::int64_t>> chosen;
  std::vector<at::Tensor> outputs;
  for (std::int64_t t = 0; t < rows.size(0); ++t) {
    const auto given = experts_.find(prefix);
    const at::Tensor order = given == experts_.end() ? probabilities[t].argsort(true, 0, true) : given->second[t];
    chosen.emplace_back();
    for (std::int64_t j = 0; j < moe.top_k; ++j) chosen.back().push_back(order[j].item<std::int64_t>());
    outputs.push_back(at::zeros({rows.size(1)}, at::kDouble));
  }
  std::vector<std::int64_t> tokens(chosen.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto best = [&](std::int64_t t) { return probabilities[t].max().item<double>(); };
  if (moe.priority == RouterPriority::score)
    std::stable_sort(tokens.begin(), tokens.end(), [&](auto a, auto b) { return best(a) > best(b); });
  const double share = std::ceil(static_cast<double>(rows.size(0)) / static_cast<double>(moe.experts));
  const double capacity = static_cast<double>(moe.top_k) * std::floor(std::abs(moe.capacity_factor) * share);
  std::vector<double> taken(static_cast<std::size_t>(moe.experts), 0);
  for (std::size_t j = 0; j < static_cast<std::size_t>(moe.top_k); ++j) {
    for (const std::int64_t t : tokens) {
      const auto place = static_cast<std::size_t>(t);
      const std::int64_t expert = chosen[place][j];
      if (moe.capacity_factor != 0 && taken[static_cast<std::size_t>(expert)] == capacity) {
        ++dropped_;
        continue;
      }
      ++taken[static_cast<std::size_t>(expert)];
      at::Tensor gate = probabilities[t][expert];
      if (moe.normalize_gates) gate = gate / probabilities[t].index_select(0, at::tensor(chosen[place])).sum();
      outputs[place] = outputs[place] + gate * expert_network(rows[t], prefix + "ffn.experts", expert);
    }
  }
  add_router_losses(logits, noisy, chosen);
  return at::stack(outputs);
}

at::Tensor ReferenceModel::feed_forward(const at::Tensor& x, const std::string& prefix) const {
  if (parameters_.count(prefix + "ffn.router.weight") == 0) return dense_network(x, prefix + "ffn");
  const at::Tensor routed = mixture(x.flatten(0, 1), prefix).view(x.sizes());
  if (model_.moe->shared_experts == 0) return routed;
  const at::Tensor shared = dense_network(x, prefix + "ffn.shared");
  if (!model_.moe->shared_gate) return routed + shared;
  return routed + shared / (1 + (-plain_product(x, parameter(prefix + "ffn.shared_gate.weight"))).exp());
}

at::Tensor ReferenceModel::embed(const at::Tensor& tokens) const {
  at::Tensor x = at::one_hot(tokens, model_.vocab_size).to(at::kDouble).matmul(parameter("embedding.token.weight"));
  x = model_.embedding_scale * x;
  if (model_.position == Position::learned) x = x + parameter("embedding.position.weight").slice(0, 0, tokens.size(1));
  return drop(x, "embedding");
}

at::Tensor ReferenceModel::layer(std::int64_t index, const at::Tensor& x) const {
  const std::string prefix = "layers." + std::to_string(index) + ".";
  const auto branch = [&](const at::Tensor& made, const std::string& post_norm, const std::string& site) {
    return drop(model_.post_norms ? norm(made, prefix + post_norm) : made, prefix + site);
  };
  const at::Tensor normed = norm(x, prefix + "attention_norm");
  const at::Tensor middle = x + branch(attention(normed, prefix), "attention_post_norm", "attention.residual");
  const bool is_parallel = model_.parallel_residual != ParallelResidual::none;
  const at::Tensor input = model_.parallel_residual == ParallelResidual::one_norm
                               ? normed
                               : norm(is_parallel ? x : middle, prefix + "ffn_norm");
  return middle + branch(feed_forward(input, prefix), "ffn_post_norm", "ffn.residual");
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

// SPDX-License-Identifier: Apache-2.0
// What weights start as, on one rank and on a part of the ranks.
#include "core/parameters/flat_memory.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

// The same values in pieces, from any element to any other one.
void check_pieces(const at::Tensor& whole, const ParameterStore& store, const Graph& graph, std::int64_t seed) {
  const std::int64_t n = store.elements();
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, n}, {n / 3 + 1, n}, {7, n / 2}, {5, 6}}) {
    std::int64_t next = begin;
    for_initial_weights(store, graph, seed, begin, end, [&](std::int64_t from, const at::Tensor& values) {
      CHECK(from == next);
      next += values.numel();
      CHECK(at::equal(values, whole.slice(0, from, next)));
    });
    CHECK(next == end);
  }
}

NamedTensors initial_weights(const Graph& graph, const ShardPlace& place = {}, std::int64_t seed = 5,
                             std::vector<std::size_t> parameters = {}) {
  if (parameters.empty()) parameters = indices_below(graph.parameters.size());
  ParameterStore store(graph, parameters, place);
  // A few elements of somebody else follow what is ours.
  const at::Tensor flat = at::full({store.elements() + 3}, 8.5, at::kFloat);
  for_initial_weights(store, graph, seed, 0, store.elements(), [&](std::int64_t begin, const at::Tensor& values) {
    flat.slice(0, begin, begin + values.numel()).copy_(values);
  });
  CHECK(flat.slice(0, store.elements()).eq(8.5).all().item<bool>());
  check_pieces(flat, store, graph, seed);
  store.attach_weights(flat);
  NamedTensors weights;
  for (const std::size_t i : parameters) weights[graph.parameters[i].name] = store.weight(i);
  return weights;
}

ModelRecipe wide_model() {
  ModelRecipe model = mixed_model();
  model.layers = 3;
  model.hidden_size = 48;
  model.heads = 8;
  model.kv_heads = 2;
  model.ffn_hidden_size = 64;
  model.vocab_size = 101;
  return model;
}

// GPT-2's: biases 0, norms 1, all else normal, and projections into the residual stream smaller by √(2·layers).
double expected_deviation(const ModelRecipe& model, const std::string& name) {
  const bool is_residual = name.ends_with("attention.output.weight") || name.ends_with("ffn.down.weight");
  return is_residual ? model.init_std / std::sqrt(2.0 * static_cast<double>(model.layers)) : model.init_std;
}

bool is_norm(const std::string& name) { return name.find("norm") != std::string::npos; }

// What a tensor rank holds of a parameter, cut from the whole one by what the model's papers say.
at::Tensor slice_of(const ModelRecipe& model, const std::string& name, const at::Tensor& whole, std::int64_t ranks,
                    std::int64_t rank) {
  const auto cut = [&](std::int64_t axis, std::int64_t parts, std::int64_t part) {
    return whole.chunk(parts, axis)[static_cast<std::size_t>(part)];
  };
  if (is_norm(name) || name == "embedding.position.weight") return whole;
  if (name.ends_with("output.bias") || name.ends_with("down.bias")) return whole;
  if (name.ends_with("output.weight") || name.ends_with("down.weight")) return cut(1, ranks, rank);
  if (name.find("key") != std::string::npos || name.find("value") != std::string::npos) {
    const std::int64_t parts = std::min(ranks, model.kv_heads);
    return cut(0, parts, rank / (ranks / parts));
  }
  if (name != "embedding.token.weight" && name != "head.weight") return cut(0, ranks, rank);
  const std::int64_t rows = (whole.size(0) + ranks - 1) / ranks, real = whole.size(0);
  const at::Tensor padded = at::cat({whole, at::zeros({rows * ranks - real, whole.size(1)})});
  return padded.narrow(0, rank * rows, rows);
}

}  // namespace

TEST_CASE("weights start as their kind asks") {
  for (const double init_std : {0.02, 0.1}) {
    for (ModelRecipe model : {wide_model(), gpt2_model()}) {
      model.init_std = init_std;
      for (const auto& [name, weight] : initial_weights(Graph::build(model))) {
        INFO(name);
        if (name.ends_with(".bias") || is_norm(name)) {
          CHECK(weight.eq(name.ends_with(".bias") ? 0 : 1).all().item<bool>());
          continue;
        }
        const auto count = static_cast<double>(weight.numel());
        const double deviation = expected_deviation(model, name);
        CHECK(std::abs(weight.mean().item<double>()) < 5 * deviation / std::sqrt(count));
        CHECK(std::abs(weight.std(false).item<double>() / deviation - 1) < 5 / std::sqrt(2 * count));
      }
    }
  }
}

TEST_CASE("no parameter repeats another one's numbers, nor those of another seed") {
  const Graph graph = Graph::build(wide_model());
  std::vector<at::Tensor> all;
  for (const std::int64_t seed : {5, 6}) {
    for (const auto& [name, weight] : initial_weights(graph, {}, seed))
      if (!name.ends_with(".bias") && !is_norm(name)) all.push_back(weight.flatten() / weight.std());
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const std::int64_t count = std::min(all[i].numel(), all[j].numel());
      const double correlation = (all[i].slice(0, 0, count) * all[j].slice(0, 0, count)).mean().item<double>();
      CHECK(std::abs(correlation) < 6 / std::sqrt(static_cast<double>(count)));
    }
  }
  const at::Tensor table = initial_weights(graph).at("embedding.token.weight");
  CHECK_FALSE(table[0].equal(table[1]));
}

TEST_CASE("a parameter starts alike wherever it is stored") {
  const Graph graph = Graph::build(wide_model());
  const NamedTensors whole = initial_weights(graph);
  std::vector<std::size_t> reversed_half;
  for (std::size_t i = graph.parameters.size(); i-- > 0;)
    if (i % 2 == 1) reversed_half.push_back(i);
  for (const auto& [name, weight] : initial_weights(graph, {}, 5, reversed_half)) {
    INFO(name);
    CHECK(weight.equal(whole.at(name)));
  }
  ModelRecipe deeper = wide_model();
  deeper.layers = 7;
  const NamedTensors of_deeper = initial_weights(Graph::build(deeper));
  CHECK(of_deeper.at("layers.2.ffn.up.weight").equal(whole.at("layers.2.ffn.up.weight")));
}

TEST_CASE("a tensor rank starts with its slice of the whole") {
  for (ModelRecipe model : {wide_model(), [] {
                              ModelRecipe learned = wide_model();
                              learned.position = Position::learned;
                              learned.tie_embeddings = true;
                              learned.kv_heads = 8;
                              return learned;
                            }()}) {
    const Graph graph = Graph::build(model);
    const NamedTensors whole = initial_weights(graph);
    for (const std::int64_t ranks : {2, 4, 8}) {
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        for (const auto& [name, part] : initial_weights(graph, {.degrees = {.tensor = ranks}, .tensor = rank})) {
          INFO(name << ", rank " << rank << " of " << ranks);
          CHECK(part.equal(slice_of(model, name, whole.at(name), ranks, rank)));
        }
      }
    }
  }
}

TEST_CASE("weight decay is for matrices and token tables") {
  for (const NamedModel& named : all_models()) {
    for (const Parameter& parameter : Graph::build(named.model).parameters) {
      INFO(named.name << ", " << parameter.name);
      const bool is_matrix = parameter.name.ends_with(".weight") && !is_norm(parameter.name);
      CHECK(parameter.decays == (is_matrix && parameter.name != "embedding.position.weight"));
    }
  }
}

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
// Two heads, each with a loss of its own, that read one value or two, against autograd's of a plain model in float64.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/core/model/small_model.h"
#include "tests/core/model/staged_passes.h"
#include "tests/core/model/two_headed_reference.h"

namespace llmtrain::test {
namespace {

constexpr double first_gradient = 1.0 / 50, second_gradient = second_coefficient / 17;

PassInput input_of(const ModelRecipe& model, bool counts_all) {
  PassInput input = random_input(model);
  input.context.loss_gradients = {first_gradient, second_gradient};
  if (!counts_all) input.batch.field(BatchField::counted_rows) = at::arange(1, 20, 3, at::kLong);
  return input;
}

using Layer = std::optional<std::int64_t>;  // that the second head reads, or none

void check_autograd(const ModelRecipe& recipe, Layer layer, const PassInput& input, at::ScalarType type) {
  const Graph graph = two_headed_graph(recipe, layer);
  const NamedTensors parameters = differentiable(SmallModel(graph, {.type = type}).weights());
  const TwoLosses expected = two_headed_losses(recipe, parameters, input.batch, layer);
  (expected.first.sum() * first_gradient + expected.second.sum() * second_gradient).backward();
  const StagedPasses got = passes_through({indices_below(graph.blocks.size())}, graph, {.type = type}, input);
  CHECK(distance(got.losses[0], expected.first) < tolerance_of(type));
  CHECK(distance(got.losses[1], expected.second) < tolerance_of(type));
  check_gradients(got.gradients, gradients_of(parameters), tolerance_of(type));
}

}  // namespace

TEST_CASE("two heads of one value, or of two, learn what autograd says") {
  for (const NamedModel& named : all_models())
    for (const bool counts_all : {true, false})
      for (const at::ScalarType type : {at::kFloat, at::kDouble})
        for (const Layer layer : {Layer(), Layer(0)}) {
          INFO(named.name << (counts_all ? "" : ", some rows") << (layer ? ", an early layer" : ""));
          check_autograd(named.model, layer, input_of(named.model, counts_all), type);
        }
}

TEST_CASE("heads on stages of their own learn, bit by bit, what they do in one, also across two cuts") {
  const PassInput input = input_of(llama_model(), true);
  const auto check = [&](Layer layer, const std::vector<std::vector<std::size_t>>& stages,
                         const std::vector<std::size_t>& sent) {
    const Graph graph = two_headed_graph(llama_model(), layer);
    const StagedPasses whole = passes_through({indices_below(graph.blocks.size())}, graph, {}, input);
    const StagedPasses cut = passes_through(stages, graph, {}, input);
    CHECK(cut.sent == sent);
    for (std::size_t term = 0; term < 2; ++term) CHECK(cut.losses[term].equal(whole.losses[term]));
    check_same_bits(cut.gradients, whole.gradients);
  };
  // Blocks: the embedding, two layers, both heads.
  check({}, {{0, 1, 2, 3}, {4}}, {1});
  check({}, {{0}, {1}, {2}, {3}, {4}}, {1, 1, 1, 1});
  check(0, {{0, 1}, {2}, {3, 4}}, {1, 2});
  check(0, {{0, 1}, {2, 3}, {4}}, {1, 1});
}

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/token_choices.h"

#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/core/model/small_model.h"

namespace llmtrain::test {

TEST_CASE("choices of tokens are recorded by index, with the least difference that would change them") {
  // The first and last token of sequences of four.
  const kernels::SequencePart ends{4, {{0, 1}, {3, 1}}};
  const at::Tensor probabilities = at::tensor({0.5, 0.3, 0.2, 0.1, 0.125, 0.775}, at::kDouble).view({2, 3});
  const at::Tensor experts = at::tensor({0, 1, 2, 1}, at::kLong).view({2, 2});
  const at::Tensor row_of = at::tensor({0, 1, 2, -1}, at::kLong).view({2, 2});
  TokenChoices choices;
  choices.record(3, {probabilities, experts, row_of}, {ends, 2}, 8);
  REQUIRE(choices.layers().size() == 1);
  const TokenChoices::Layer& layer = choices.layers().at(3);
  REQUIRE(layer.size() == 2);
  CHECK(layer.at(8).experts == std::vector<std::int64_t>{0, 1});
  CHECK(layer.at(8).kept == layer.at(8).experts);
  CHECK(layer.at(8).best == 0.5);
  CHECK(layer.at(8).gap == Approx(0.1));
  CHECK(layer.at(11).experts == std::vector<std::int64_t>{2, 1});
  CHECK(layer.at(11).kept == std::vector<std::int64_t>{2});
  CHECK(layer.at(11).gap == Approx(0.025));
  // All experts are chosen: only their order may change.
  const at::Tensor all = at::tensor({0, 1, 2, 2, 1, 0}, at::kLong).view({2, 3});
  choices.record(3, {probabilities, all, all}, {ends, 2}, 8);
  CHECK(layer.at(8).gap == Approx(0.1));
  choices.clear();
  const at::Tensor one = at::tensor({1.0}, at::kDouble).view({1, 1});
  const kernels::SequencePart whole;
  const at::Tensor first = at::tensor({0}, at::kLong).view({1, 1});
  choices.record(0, {one, first, first}, {whole, 1}, 0);
  CHECK(choices.layers().at(0).at(0).gap == std::numeric_limits<double>::infinity());
}

TEST_CASE("a training pass records the choices that its counts count, also where layers run again") {
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    const ModelRecipe recipe = with_experts(llama_model());
    PassInput micro = random_input(recipe);
    TokenChoices choices;
    micro.context.recorders.token_choices = &choices;
    SmallModel model(recipe, {.recompute = recompute});
    model.forward(micro, PassMode::evaluation);
    CHECK(choices.layers().empty());
    model.learn(micro);
    const RoutingCounts counts = model.take_routing_counts();
    REQUIRE(choices.layers().size() == 2);
    for (const auto& [layer, tokens] : choices.layers()) {
      // Sequence 4 of the global batch, of seven tokens each, is the first one here.
      CHECK((tokens.size() == 21 && tokens.begin()->first == 28));
      std::vector<double> chosen(8, 0);
      for (const auto& [token, choice] : tokens)
        for (const std::int64_t expert : choice.experts) ++chosen[static_cast<std::size_t>(expert)];
      CHECK(chosen == counts[static_cast<std::size_t>(layer)]);
    }
  }
}

}  // namespace llmtrain::test

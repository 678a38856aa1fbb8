// SPDX-License-Identifier: Apache-2.0
// The experts of texts that grow together, and passes over whole texts that use them again.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/moe/pass_routing.h"
#include "kernels/separate_rows.h"
#include "parallel/engine/generation/continuation_scores.h"
#include "parallel/engine/generation/continuous_batch.h"
#include "parallel/engine/generation/drafts.h"
#include "tests/parallel/engine/generation/routed_text.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

using Tokens = std::vector<std::int64_t>;
using Routing = std::vector<TokenExperts>;

// Every second layer is dense.
const Overrides routed_model{"model.layers=4", "model.init_std=0.2", "model.max_sequence_length=300",
                             R"(model.moe={"experts": 6, "top_k": 2, "every": 2, "capacity_factor": 0})"};

// The last prompt is read in two parts.
std::vector<RoutedText> written_texts(LocalModel& model, const BatchLimits& limits) {
  ContinuousBatch batch(model, limits);
  std::vector<RoutedText> texts(3);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    RoutedText& text = texts[i];
    for (std::int64_t t = 0; t < std::vector{1, 9, 260}[i]; ++t) text.tokens.push_back((t * t + 31) % 256);
    batch.add({.prompt = text.tokens,
               .tokens = 12,
               .choice = {.temperature = 1.2, .seed = 4},
               .log_probabilities = 0,
               .returns_experts = i != 1},
              listener_of(text));
  }
  while (batch.step()) continue;
  return texts;
}

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_data);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("texts tell the experts of all tokens that were read, with which a pass has the same log-probabilities") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(routed_model));
  LocalModel& model = trainer.model();
  for (RoutedText& text : written_texts(model, {.sequences = 3, .is_exact = true})) {
    const bool is_asked = text.tokens.size() != 9 + 12;
    REQUIRE(text.experts.size() == (is_asked ? text.tokens.size() - 1 : 0));
    const kernels::SeparateRows separate(true);
    const std::vector<double> all = log_probabilities_of(model, text.tokens, text.experts);
    CHECK(all == log_probabilities_of(model, text.tokens));
    CHECK(std::equal(text.log_probabilities.begin(), text.log_probabilities.end(), all.end() - 12));
    if (!is_asked) continue;
    require_routing(model.graph(), text.experts, std::ssize(text.tokens) - 1);
    // A token's experts change what follows it, and nothing before.
    Routing changed = text.experts;
    const std::size_t place = changed.size() - 3;
    for (std::int64_t& expert : changed[place][0]) expert = (expert + 3) % 6;
    const std::vector<double> others = log_probabilities_of(model, text.tokens, changed);
    CHECK(std::ranges::mismatch(all, others).in1 - all.begin() == static_cast<std::ptrdiff_t>(place));
  }
}

TEST_CASE("guessed tokens leave no experts of tokens that do not follow") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(routed_model));
  const auto plain = written_texts(trainer.model(), {.sequences = 3});
  LookupDrafts drafts;
  const auto guessed = written_texts(trainer.model(), {.sequences = 3, .drafting = {&drafts, 4}});
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CHECK(guessed[i].tokens == plain[i].tokens);
    CHECK(guessed[i].experts == plain[i].experts);
  }
}

TEST_CASE("a routing that is not of the model and the text is refused by the place where it is wrong", "[refused]") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(routed_model));
  const Graph& graph = trainer.model().graph();
  const Routing good(4, TokenExperts{{0, 5}, {2, 1}});
  const auto refused = [&](const std::function<void(Routing&)>& change) {
    Routing routing = good;
    change(routing);
    return refusal([&] { require_routing(graph, routing, 4); });
  };
  CHECK(refused([](Routing&) {}).empty());
  CHECK(refused([](Routing& r) { r.pop_back(); }).starts_with("routed_experts has 3 entries; must be 4"));
  CHECK(refused([](Routing& r) { r[2].pop_back(); }).starts_with("routed_experts[2] has 1 entries; must be 2"));
  CHECK(refused([](Routing& r) { r[1][1].push_back(3); }).starts_with("routed_experts[1][1] has 3 entries; must be 2"));
  CHECK(refused([](Routing& r) { r[3][0][1] = 6; }).starts_with("routed_experts[3][0] has the expert 6; must be in"));
  CHECK(refused([](Routing& r) { r[3][0][1] = -1; }).starts_with("routed_experts[3][0] has the expert -1; must be in"));
  CHECK(refused([](Routing& r) { r[0][1] = {4, 4}; }).starts_with("routed_experts[0][1] has the expert 4 twice"));
  LoneTrainer dense(setting.recipe({}));
  CHECK(refusal([&] { require_routing(dense.model().graph(), good, 4); }).starts_with("routed_experts: the model has"));
  ContinuousBatch batch(dense.model(), {});
  CHECK(refusal([&] { batch.require_fit({.prompt = {1}, .tokens = 1, .returns_experts = true}); }).size() > 0);
}

}  // namespace llmtrain::test

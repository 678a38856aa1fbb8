// SPDX-License-Identifier: Apache-2.0
// Ranks that share a model tell the experts that one rank tells, of all layers and tokens, and score texts by them.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/separate_rows.h"
#include "parallel/engine/generation/continuation_scores.h"
#include "parallel/engine/generation/continuous_batch.h"
#include "parallel/engine/generation/drafts.h"
#include "tests/parallel/engine/generation/routed_text.h"
#include "tests/parallel/engine/generation/stepped_batch.h"

namespace llmtrain::test::batch_ranks {
namespace {

using Tokens = std::vector<std::int64_t>;

// Every second layer is dense.
const Overrides every_second{"model.layers=4",
                             R"(model.moe={"experts": 4, "top_k": 2, "every": 2, "capacity_factor": 0})"};

// Two that grow together and are asked for experts, one of them with a prompt of two parts, beside one that is not.
std::vector<RoutedText> written_on(LocalModel& model, const BatchLimits& limits) {
  SteppedBatch stepped(model, limits);
  std::vector<RoutedText> texts(3);
  if (stepped.leads()) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      RoutedText& text = texts[i];
      for (std::int64_t t = 0; t < std::vector{21, 3, 261}[i]; ++t) text.tokens.push_back((t * t + 7) % 256);
      stepped.batch().add({.prompt = text.tokens,
                           .tokens = 6,
                           .choice = {.temperature = 0},
                           .log_probabilities = 0,
                           .returns_experts = i != 1},
                          listener_of(text));
    }
    stepped.run_to_end();
  }
  stepped.follow();
  return texts;
}

struct Layout {
  Overrides overrides;
  int ranks = 2;
};
const std::array<Layout, 3> layouts{
    {{expert_tensor}, {pipeline}, {{"parallel.tensor=2", "parallel.expert_tensor=2", "parallel.pipeline=2"}, 4}}};

}  // namespace

TEST_CASE("ranks that share a model tell the experts of all layers and tokens that one rank tells") {
  std::vector<RoutedText> alone;
  on_ranks(1, small + llama + every_second, [&](LocalModel& model) { alone = written_on(model, {}); });
  CHECK(alone[2].experts.size() == 261 + 5);  // of all tokens but the last
  CHECK(alone[1].experts.empty());
  for (const Layout& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    on_ranks(layout.ranks, small + llama + every_second + layout.overrides, [&](LocalModel& model) {
      LookupDrafts lookup;
      for (const bool guesses : {false, true}) {
        BatchLimits limits;
        if (guesses) limits.drafting = {RankLead(model.groups()).leads() ? &lookup : nullptr, 3};
        const std::vector<RoutedText> found = written_on(model, limits);
        if (!RankLead(model.groups()).leads()) continue;
        for (std::size_t i = 0; i < found.size(); ++i) {
          CHECK(found[i].tokens == alone[i].tokens);
          const bool are_same = found[i].experts == alone[i].experts;
          CHECK(are_same);
        }
      }
    });
  }
}

TEST_CASE("ranks that share a model score texts by the experts that they have told, bit for bit as they wrote them") {
  for (const Layout& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    on_ranks(layout.ranks, small + llama + every_second + layout.overrides, [&](LocalModel& model) {
      const RankLead lead(model.groups());
      const std::vector<RoutedText> texts = written_on(model, {.is_exact = true});
      const kernels::SeparateRows separate(true);
      for (const std::size_t i : {0, 2}) {
        const Tokens tokens = lead.tell(texts[i].tokens);
        std::vector<TokenExperts> chosen(tokens.size() - 1, TokenExperts(2, std::vector<std::int64_t>(2)));
        Tokens words;
        for (const TokenExperts& token : texts[i].experts)
          for (const auto& layer : token) words.insert(words.end(), layer.begin(), layer.end());
        words = lead.tell(words);
        for (std::size_t k = 0; k < words.size(); ++k) chosen[k / 4][k / 2 % 2][k % 2] = words[k];
        const std::vector<double> all = log_probabilities_of(model, tokens, chosen);
        // Another expert of the last token that is read changes what follows it alone.
        for (std::int64_t& expert : chosen.back()[1]) expert = (expert + 2) % 4;
        const std::vector<double> others = log_probabilities_of(model, tokens, chosen);
        if (!lead.leads()) continue;
        REQUIRE(all.size() == tokens.size() - 1);
        CHECK(std::equal(texts[i].log_probabilities.begin(), texts[i].log_probabilities.end(), all.end() - 6));
        CHECK(std::ranges::mismatch(all, others).in1 == all.end() - 1);
      }
    });
  }
}

}  // namespace llmtrain::test::batch_ranks

// SPDX-License-Identifier: Apache-2.0
// Texts have the tokens and log-probabilities, bit for bit, that they have without guesses, whoever guesses.
#include "parallel/engine/generation/drafts.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <functional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "parallel/engine/generation/continuous_batch.h"
#include "parallel/engine/generation/generation.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

using Tokens = std::vector<std::int64_t>;

// Initial weights ten times as large as usual, so that logits differ by more than rounding. Some texts reach the
// window.
const Overrides large{"model.init_std=0.2", "model.max_sequence_length=60"};
const Overrides gpt2{"model.architecture=\"gpt2\"", "model.kv_heads=4"};
const Overrides window{R"(model.sliding_window={"tokens": 21, "global_every": 2})"};
const Overrides experts{R"(model.moe={"experts": 4, "top_k": 2, "capacity_factor": 0, "shared_experts": 1})"};
const Overrides bf16{"precision.compute=\"bf16\""};

std::vector<TextRequest> requests_of(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto between = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  std::vector<TextRequest> requests(7);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    TextRequest& request = requests[i];
    for (std::int64_t length = between(1, 30); length > 0; --length) request.prompt.push_back(between(0, 255));
    request.tokens = between(1, 30);
    request.choice = {.temperature = i % 2 == 0 ? 0 : 1.3, .top_k = 60 * between(0, 1), .seed = between(0, 1000)};
    request.rules.repetition_penalty = i % 3 == 0 ? 1.2 : 1;
    request.number = {between(0, 9), between(0, 3)};
    request.log_probabilities = 2;
  }
  return requests;
}

struct Answer {
  Tokens tokens;
  std::vector<double> log_probabilities;
  bool operator==(const Answer&) const = default;
};

struct Answers {
  std::vector<Answer> texts;
  std::int64_t steps = 0;
};

Answers answers(LocalModel& model, const std::vector<TextRequest>& requests, BatchLimits limits) {
  ContinuousBatch batch(model, limits);
  Answers answers{std::vector<Answer>(requests.size())};
  for (std::size_t i = 0; i < requests.size(); ++i)
    batch.add(requests[i], [&, i](const GrownToken& token) {
      answers.texts[i].tokens.push_back(token.id);
      answers.texts[i].log_probabilities.push_back(*token.log_probability);
      for (const LikelyToken& likely : token.likeliest)
        answers.texts[i].log_probabilities.push_back(likely.log_probability);
      return true;
    });
  while (batch.step()) ++answers.steps;
  return answers;
}

// Knows how texts go on, and says so much of it before it is wrong. The draws say how many guesses it has.
class Oracle final : public Drafts {
 public:
  Oracle(const std::vector<TextRequest>& requests, const std::vector<Answer>& answers, std::int64_t right)
      : right_(right), random_(3) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      texts_.push_back(requests[i].prompt);
      texts_.back().insert(texts_.back().end(), answers[i].tokens.begin(), answers[i].tokens.end());
    }
  }

  Guesses guess(std::span<const DraftedText> texts) override {
    Guesses guesses(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::span known = texts[i].tokens;
      const auto whole = std::ranges::find_if(texts_, [&](const Tokens& text) {
        return text.size() >= known.size() && std::ranges::equal(known, std::span(text).first(known.size()));
      });
      REQUIRE(whole != texts_.end());
      REQUIRE(texts[i].most < texts[i].limit - texts[i].index);
      const auto most =
          std::uniform_int_distribution<std::int64_t>(0, std::max<std::int64_t>(0, texts[i].most))(random_);
      for (std::int64_t k = 0; k < most; ++k) {
        const std::int64_t token = (*whole)[known.size() + static_cast<std::size_t>(k)];
        guesses[i].push_back(k < right_ ? token : (token + 1) % 256);
      }
    }
    return guesses;
  }

 private:
  std::int64_t right_;
  std::mt19937 random_;
  std::vector<Tokens> texts_;
};

void check_texts(LocalModel& model, std::uint32_t seed, LocalModel& other, const BatchLimits& plain) {
  const std::vector<TextRequest> requests = requests_of(seed);
  const Answers alone = answers(model, requests, plain);
  ModelDrafts same(model, plain.sequences, 60), smaller(other, plain.sequences, 60);
  LookupDrafts lookup;
  Oracle knows(requests, alone.texts, 4), errs(requests, alone.texts, 0), half(requests, alone.texts, 2);
  for (Drafts* drafts : std::initializer_list<Drafts*>{&same, &smaller, &lookup, &knows, &errs, &half}) {
    BatchLimits limits = plain;
    limits.drafting = {.drafts = drafts, .tokens = 4};
    const bool are_same = answers(model, requests, limits).texts == alone.texts;
    CHECK(are_same);
  }
  CHECK(same.counts().drafted > 20);
  CHECK(10 * smaller.counts().accepted < 5 * smaller.counts().drafted);
  CHECK(knows.counts().accepted == knows.counts().drafted);
  CHECK(errs.counts().accepted == 0);
  CHECK(errs.counts().drafted > 20);
}

}  // namespace

TEST_CASE("texts that grow together are those without guesses, bit for bit") {
  const TrainingSetting setting;
  const Overrides model = GENERATE(Overrides(gpt2), Overrides(experts), window + bf16);
  INFO(in_words(1, model));
  LoneTrainer trainer(setting.recipe(large + model));
  // The model that guesses has another architecture and a shorter window.
  LoneTrainer other(setting.recipe({"model.init_std=0.2", "model.architecture=\"gpt-rope\"", "model.layers=1",
                                    "model.max_sequence_length=40", "batch.sequence_length=32"}));
  check_texts(trainer.model(), 1, other.model(), {.sequences = 3});
  check_texts(trainer.model(), 2, other.model(), {.sequences = 4, .is_exact = true});
  check_texts(trainer.model(), 3, other.model(), {.sequences = 2, .key_values = KeyValueType::int8});
}

TEST_CASE("right guesses save passes") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(large));
  std::vector<TextRequest> requests(1);
  requests[0] = {.prompt = {1, 2, 3}, .tokens = 41, .choice = {.temperature = 0}, .log_probabilities = 0};
  const Answers alone = answers(trainer.model(), requests, {});
  CHECK(alone.steps == 40);
  ModelDrafts same(trainer.model(), 1, 60);
  const Answers guessed = answers(trainer.model(), requests, {.sequences = 1, .drafting = {&same, 4}});
  const bool are_same = guessed.texts == alone.texts;
  CHECK(are_same);
  // The first step reads the prompt, which is followed by the second token, too; each later one may add five.
  CHECK(guessed.steps <= 40 / 5 + 2);
  // Its own choices differ by rounding alone, in passes of several tokens.
  CHECK(10 * same.counts().accepted >= 9 * same.counts().drafted);
}

TEST_CASE("texts of generate() are those without guesses, beyond the window, too") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(large));
  LoneTrainer other(setting.recipe({"model.init_std=0.2", "model.layers=1"}));
  const std::vector<Tokens> prompts{{1, 2, 3}, {7}, {9, 8, 7, 6, 5, 4, 3}};
  const auto texts_of = [&](Drafting drafting) {
    std::vector<Tokens> texts(prompts.size() * 2);
    GenerateOptions options{.tokens = 70, .choice = {.temperature = 0.9}, .samples = 2, .batch = 4};
    options.drafting = drafting;
    generate(trainer.model(), prompts, options, [&](const TextNumber& number, std::int64_t token) {
      Tokens& text = texts[static_cast<std::size_t>(2 * number.prompt + number.sample)];
      text.push_back(token);
      return token % 50 != 0 || text.size() < 9;
    });
    return texts;
  };
  const std::vector<Tokens> alone = texts_of({});
  ModelDrafts same(trainer.model(), 4, 80), smaller(other.model(), 4, 80);
  LookupDrafts lookup;
  for (Drafts* drafts : std::initializer_list<Drafts*>{&same, &smaller, &lookup})
    CHECK(texts_of({.drafts = drafts, .tokens = 3}) == alone);
  CHECK(10 * same.counts().accepted >= 9 * same.counts().drafted);
}

TEST_CASE("what a model guesses depends on the text alone, not on wrong guesses or on who had its place") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(large));
  const LogitRules rules;
  const TokenChoice choice{.temperature = 1.1, .seed = 5};
  const auto guess = [&](Drafts& drafts, const Tokens& tokens, std::int64_t index) {
    const std::array text{DraftedText{
        .tokens = tokens, .most = 4, .index = index, .limit = 40, .choice = choice, .rules = rules, .number = {2, 1}}};
    return drafts.guess(text).front();
  };
  ModelDrafts used(trainer.model(), 1, 60);
  const Tokens prompt{9, 8, 7, 6};
  Tokens text = prompt;
  for (std::int64_t index = 0; index < 12; ++index) {
    ModelDrafts fresh(trainer.model(), 1, 60);
    const Tokens guesses = guess(used, text, index);
    CHECK(guesses == guess(fresh, text, index));
    // Every second time the first guess is wrong.
    text.push_back(index % 2 == 0 ? guesses.front() : (guesses.front() + 1) % 256);
  }
  const TextRequest request{.prompt = prompt, .tokens = 4, .choice = choice, .number = {2, 1}, .log_probabilities = 0};
  CHECK(guess(used, prompt, 0) == answers(trainer.model(), {request}, {}).texts.front().tokens);
}

TEST_CASE("what followed the same tokens before is guessed") {
  LookupDrafts drafts;
  const TokenChoice choice;
  const LogitRules rules;
  const auto guess = [&](const Tokens& tokens, std::int64_t most) {
    const std::array text{DraftedText{.tokens = tokens, .most = most, .choice = choice, .rules = rules}};
    return drafts.guess(text).front();
  };
  CHECK(guess({1, 2, 3, 4, 5, 1, 2, 3}, 2) == Tokens{4, 5});
  CHECK(guess({1, 2, 3, 4, 5, 1, 2, 3}, 9) == Tokens{4, 5, 1, 2, 3});
  // The longest match, and of several the last.
  CHECK(guess({1, 2, 3, 7, 9, 3, 8, 1, 2, 3}, 1) == Tokens{7});
  CHECK(guess({3, 7, 3, 8, 3}, 1) == Tokens{8});
  CHECK(guess({5, 5}, 3) == Tokens{5});
  CHECK(guess({1, 2, 3}, 4).empty());
  CHECK(guess({1}, 4).empty());
  CHECK(guess({1, 1, 1}, 0).empty());
  CHECK(guess({1, 1, 1}, -1).empty());
}

TEST_CASE("guesses are refused where a pass over several tokens has other bits", "[refused]") {
  const TrainingSetting setting;
  LookupDrafts drafts;
  const std::vector<Tokens> prompts{{1, 2, 3}};
  const auto none = [](const TextNumber&, std::int64_t) { return true; };
  LoneTrainer fp8(setting.recipe({"precision.fp8_level=\"O2\"", "precision.compute=\"bf16\""}));
  CHECK_THROWS_WITH(generate(fp8.model(), prompts, {.tokens = 3, .choice = {}, .drafting = {&drafts, 2}}, none),
                    Catch::Contains("/precision/fp8_level") && Catch::Contains("--draft"));
}

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
// Texts that come and go while others grow are, bit for bit, those that grow alone.
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "parallel/engine/generation/continuous_batch.h"
#include "parallel/engine/generation/generation.h"
#include "parallel/engine/inference.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

using Tokens = std::vector<std::int64_t>;

// Initial weights ten times as large as usual, so that logits differ by more than rounding. Prompts of two parts fit.
const Overrides large{"model.init_std=0.2", "model.max_sequence_length=300"};
const Overrides gpt2{"model.architecture=\"gpt2\"", "model.kv_heads=4", "model.vocab_size=257"};
const Overrides rope{"model.architecture=\"gpt-rope\"", "model.kv_heads=1"};
const Overrides llama{"model.qk_norm=true"};
const Overrides window{R"(model.sliding_window={"tokens": 21, "global_every": 2})"};
const Overrides experts{R"(model.moe={"experts": 4, "top_k": 2, "capacity_factor": 0, "shared_experts": 1})"};
const Overrides bf16{"precision.compute=\"bf16\""};

class Draws {
 public:
  explicit Draws(std::uint32_t seed) : generator_(seed) {}
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(generator_);
  }

  // Mostly short, some of several parts.
  TextRequest request() {
    TextRequest request;
    const std::int64_t length = between(0, 4) == 0 ? between(200, 280) : between(1, 40);
    for (std::int64_t i = 0; i < length; ++i) request.prompt.push_back(between(0, 255));
    request.tokens = between(1, 19);
    request.choice = {.temperature = between(0, 2) == 0 ? 0 : 1.3,
                      .top_k = between(0, 1) * between(1, 60),
                      .top_p = between(0, 1) == 0 ? 1 : 0.9,
                      .seed = between(0, 1000)};
    request.rules.repetition_penalty = between(0, 3) == 0 ? 1.2 : 1;
    request.rules.no_repeat_ngram_size = 2 * between(0, 1);
    if (between(0, 1) == 0) request.log_probabilities = between(0, 3);
    return request;
  }

 private:
  std::mt19937 generator_;
};

struct Answer {
  Tokens tokens;
  std::vector<double> log_probabilities;
  bool operator==(const Answer&) const = default;
};

void take(Answer& answer, const GrownToken& token) {
  answer.tokens.push_back(token.id);
  if (token.log_probability) answer.log_probabilities.push_back(*token.log_probability);
  for (const LikelyToken& likely : token.likeliest) {
    answer.log_probabilities.push_back(static_cast<double>(likely.id));
    answer.log_probabilities.push_back(likely.log_probability);
  }
}

Answer alone(LocalModel& model, const TextRequest& request) {
  ContinuousBatch batch(model, {.sequences = 1});
  Answer answer;
  batch.add(request, [&](const GrownToken& token) {
    take(answer, token);
    return true;
  });
  while (batch.step()) continue;
  return answer;
}

Tokens generated(LocalModel& model, const TextRequest& request) {
  Tokens tokens =
      generate(model, request.prompt, {.tokens = request.tokens, .choice = request.choice, .rules = request.rules});
  return {tokens.begin() + std::ssize(request.prompt), tokens.end()};
}

bool is_empty(const ContinuousBatch::Load& load) {
  return load.waiting == 0 && load.growing == 0 && load.used_blocks == 0;
}

// So many tokens' keys and values in the setting's layers.
std::int64_t bytes_of(LocalModel& model, std::int64_t tokens) {
  const auto load = ContinuousBatch(model, {}).load();
  return load.block_bytes * ((tokens + 15) / 16);
}

}  // namespace

TEST_CASE("texts that arrive at random are those that grow alone, bit for bit") {
  const TrainingSetting setting;
  const Overrides model =
      GENERATE(Overrides(gpt2), Overrides(rope), llama + window, llama + experts, gpt2 + bf16, llama + window + bf16,
               llama + experts + bf16, llama + Overrides{"kernels.attention=\"math\""});
  INFO(in_words(1, model));
  LoneTrainer trainer(setting.recipe(large + model));
  for (const std::uint32_t seed : {1U, 2U}) {
    INFO("seed " << seed);
    Draws draws(seed);
    const std::int64_t limit = bytes_of(trainer.model(), draws.between(300, 700));
    ContinuousBatch batch(trainer.model(), {.sequences = draws.between(2, 6), .cache_bytes = limit});
    std::vector<TextRequest> requests(14);
    std::vector<Answer> answers(requests.size());
    std::int64_t most = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i] = draws.request();
      batch.add(requests[i], [&, i](const GrownToken& token) {
        take(answers[i], token);
        return true;
      });
      for (std::int64_t step = draws.between(0, 4); step > 0; --step) batch.step();
      most = std::max(most, batch.load().used_blocks * batch.load().block_bytes);
    }
    while (batch.step()) most = std::max(most, batch.load().used_blocks * batch.load().block_bytes);
    CHECK(is_empty(batch.load()));
    CHECK(most <= limit);
    CHECK(most > 0);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      INFO("text " << i << " after " << requests[i].prompt.size());
      CHECK(answers[i] == alone(trainer.model(), requests[i]));
      CHECK(answers[i].tokens == generated(trainer.model(), requests[i]));
    }
  }
}

TEST_CASE("texts that are cancelled or end early leave their places, and the others are what they are alone") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(large + llama));
  Draws draws(7);
  ContinuousBatch batch(trainer.model(), {.sequences = 3, .cache_bytes = bytes_of(trainer.model(), 640)});
  std::vector<TextRequest> requests(30);
  std::vector<Answer> answers(requests.size());
  std::vector<std::int64_t> ids;
  std::map<std::size_t, std::size_t> cancelled;  // with how many tokens
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i] = draws.request();
    // Every third says after two tokens that it is over.
    ids.push_back(batch.add(requests[i], [&, i](const GrownToken& token) {
      take(answers[i], token);
      return i % 3 != 0 || answers[i].tokens.size() < 2;
    }));
    batch.step();
    // One of those that wait, are being read, grow or have ended.
    const auto victim = static_cast<std::size_t>(draws.between(0, static_cast<std::int64_t>(i)));
    if (i % 2 == 0 && victim % 3 != 0 && cancelled.emplace(victim, answers[victim].tokens.size()).second)
      batch.cancel(ids[victim]);
  }
  while (batch.step()) continue;
  CHECK(is_empty(batch.load()));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Answer expected = alone(trainer.model(), requests[i]);
    std::size_t length = expected.tokens.size();
    if (i % 3 == 0) length = std::min<std::size_t>(length, 2);
    if (cancelled.contains(i)) length = cancelled.at(i);
    expected.tokens.resize(length);
    INFO("text " << i);
    CHECK(answers[i].tokens == expected.tokens);
  }
  CHECK(std::any_of(cancelled.begin(), cancelled.end(), [&](const auto& one) {
    return one.second > 0 && static_cast<std::int64_t>(one.second) < requests[one.first].tokens;
  }));
}

TEST_CASE("texts are admitted in their order, as far as their caches fit") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(large + llama));
  // Three blocks: one text of 33 tokens, or three of up to 16.
  ContinuousBatch batch(trainer.model(), {.sequences = 8, .cache_bytes = bytes_of(trainer.model(), 48) + 1});
  CHECK(batch.longest() == 48);
  std::vector<int> order;
  const auto add = [&](std::int64_t prompt, std::int64_t tokens, int number) {
    batch.add({.prompt = Tokens(static_cast<std::size_t>(prompt), 5), .tokens = tokens},
              [&, number](const GrownToken&) {
                order.push_back(number);
                return true;
              });
  };
  add(10, 2, 0);
  add(33, 2, 1);  // fits when the first has ended
  add(10, 1, 2);  // would fit at once, but is not first
  add(10, 7, 3);  // 16 that are read: a block
  add(10, 8, 4);  // 17: two
  batch.step();
  CHECK(batch.load().growing == 0);  // both tokens of the first came in one step, that of its prompt and the next
  CHECK(batch.load().waiting == 4);
  batch.step();
  CHECK(batch.load().waiting == 3);
  batch.step();
  CHECK(batch.load().waiting == 1);  // a block is free, where two are needed
  CHECK(batch.load().used_blocks == 1);
  batch.step();
  CHECK(batch.load().used_blocks == 3);
  while (batch.step()) continue;
  CHECK(std::vector<int>(order.begin(), order.begin() + 5) == std::vector<int>{0, 0, 1, 1, 2});
  CHECK(std::count(order.begin(), order.end(), 4) == 8);
  CHECK(is_empty(batch.load()));
}

TEST_CASE("log-probabilities are those of the logits, with the most likely tokens in their order") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(large + llama));
  const TextRequest request{
      .prompt = {3, 1, 4, 1, 5}, .tokens = 4, .choice = {.temperature = 1}, .log_probabilities = 3};
  std::vector<GrownToken> grown;
  ContinuousBatch batch(trainer.model(), {});
  batch.add(request, [&](const GrownToken& token) {
    grown.push_back(token);
    return true;
  });
  while (batch.step()) continue;
  Tokens tokens = request.prompt;
  REQUIRE(grown.size() == 4);
  for (const GrownToken& token : grown) {
    const at::Tensor logits = logits_of(trainer.model(), at::tensor(tokens, at::kLong));
    const at::Tensor expected = at::log_softmax(logits.select(0, logits.size(0) - 1).to(at::kDouble), 0);
    CHECK(*token.log_probability == Approx(expected[token.id].item<double>()).epsilon(1e-5));
    REQUIRE(token.likeliest.size() == 3);
    CHECK(token.likeliest.front().id == expected.argmax().item<std::int64_t>());
    for (const LikelyToken& likely : token.likeliest)
      CHECK(likely.log_probability == Approx(expected[likely.id].item<double>()).epsilon(1e-5));
    CHECK(token.likeliest[0].log_probability >= token.likeliest[1].log_probability);
    tokens.push_back(token.id);
  }
}

TEST_CASE("what a batch cannot take is refused by name") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(large + llama));
  ContinuousBatch batch(trainer.model(), {});
  const auto add = [&](Tokens prompt, std::int64_t tokens) {
    batch.add({.prompt = std::move(prompt), .tokens = tokens}, [](const GrownToken&) { return true; });
  };
  CHECK_THROWS_WITH(add({}, 3), Catch::Contains("at least one each"));
  CHECK_THROWS_WITH(add({1}, 0), Catch::Contains("at least one each"));
  CHECK_THROWS_WITH(add(Tokens(290, 1), 11), Catch::Contains("300 together at most"));
  CHECK_THROWS_WITH(add({1, 256}, 1), Catch::Contains("id 256"));
  CHECK(is_empty(batch.load()));
  CHECK_THROWS_WITH(ContinuousBatch(trainer.model(), {.sequences = 1, .cache_bytes = 100}),
                    Catch::Contains("cache_bytes: 100"));
  LoneTrainer fp8(setting.recipe(large + llama + bf16 + Overrides{"precision.fp8_level=\"O0\""}));
  CHECK_THROWS_WITH(ContinuousBatch(fp8.model(), {}), Catch::Contains("/precision/fp8_level"));
}

}  // namespace llmtrain::test

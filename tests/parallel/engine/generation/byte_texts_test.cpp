// SPDX-License-Identifier: Apache-2.0
// Texts whose keys and values are kept in int8 or FP8: the same alone and together, and close to those that are not
// rounded.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/engine/generation/continuous_batch.h"
#include "parallel/engine/generation/decoder.h"
#include "parallel/engine/generation/generation.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

using Tokens = std::vector<std::int64_t>;

// Logits that differ by more than rounding.
const Overrides wide{"model.init_std=0.2", "model.max_sequence_length=300"};
const Overrides gpt2_model{"model.architecture=\"gpt2\"", "model.kv_heads=4", "model.vocab_size=257"};
const Overrides experts{R"(model.moe={"experts": 4, "top_k": 2, "capacity_factor": 0})"};
const Overrides windowed{R"(model.sliding_window={"tokens": 21, "global_every": 2})", "precision.compute=\"bf16\""};

TextRequest request_of(std::int64_t prompt, std::int64_t sample) {
  TextRequest request{.tokens = 12, .choice = {.temperature = 1.3, .seed = 7}, .number = {prompt, sample}};
  // The last is read in two parts.
  const std::int64_t length = std::array{5, 40, 270}[static_cast<std::size_t>(prompt)];
  for (std::int64_t i = 0; i < length; ++i) request.prompt.push_back((i * 37 + prompt) % 256);
  request.log_probabilities = 0;
  return request;
}

struct GrownText {
  Tokens tokens;
  std::vector<double> log_probabilities;
  bool operator==(const GrownText&) const = default;
};

std::vector<GrownText> answers_of(LocalModel& model, const std::vector<TextRequest>& requests, std::int64_t sequences,
                                  KeyValueType type) {
  ContinuousBatch batch(model, {.sequences = sequences, .key_values = type});
  std::vector<GrownText> answers(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i)
    batch.add(requests[i], [&answers, i](const GrownToken& token) {
      answers[i].tokens.push_back(token.id);
      answers[i].log_probabilities.push_back(*token.log_probability);
      return true;
    });
  while (batch.step()) continue;
  return answers;
}

// What follows `text`, greedily, with a cache of the type.
Tokens continuation(LocalModel& model, const Tokens& text, std::int64_t tokens, KeyValueType type) {
  const Tokens whole = generate(model, text, {.tokens = tokens, .choice = {.temperature = 0}, .key_values = type});
  return {whole.begin() + std::ssize(text), whole.end()};
}

// Nats per token of a text, which the cache is given token by token behind the first eight.
double loss_of(LocalModel& model, const Tokens& text, KeyValueType type) {
  Decoder decoder(model, 1, std::ssize(text), type);
  const std::span<const std::int64_t> all(text);
  double sum = 0;
  for (std::size_t begin = 0, end = 8; end < text.size(); begin = end, end = begin + 1) {
    const NewTokens piece{0, static_cast<std::int64_t>(begin), all.subspan(begin, end - begin)};
    const at::Tensor found = decoder.log_probabilities(std::array{piece}, all.subspan(begin + 1, end - begin));
    for (std::int64_t i = 0; i < found.size(0); ++i) sum -= found[i].item<double>();
  }
  return sum / static_cast<double>(text.size() - 1);
}

Tokens lines_from(int first, std::size_t bytes) {
  std::string text;
  for (int i = first; text.size() < bytes; ++i) text += "line " + std::to_string(i * i) + " of the text;\n";
  return {text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bytes)};
}

}  // namespace

TEST_CASE("texts whose keys and values are in bytes are, bit for bit, those that grow alone") {
  const TrainingSetting setting;
  const auto [type, model] =
      GENERATE(std::pair(KeyValueType::int8, Overrides{}), std::pair(KeyValueType::int8, Overrides(gpt2_model)),
               std::pair(KeyValueType::int8, Overrides(windowed)), std::pair(KeyValueType::fp8, Overrides(windowed)),
               std::pair(KeyValueType::fp8, Overrides(experts)));
  INFO(in_words(1, model) << (type == KeyValueType::int8 ? ", int8" : ", FP8"));
  LoneTrainer trainer(setting.recipe(wide + model));
  constexpr std::int64_t samples = 3, texts = 3;
  std::vector<TextRequest> requests;
  for (std::int64_t prompt = 0; prompt < texts; ++prompt)
    for (std::int64_t sample = 0; sample < samples; ++sample) requests.push_back(request_of(prompt, sample));
  const std::vector<GrownText> together = answers_of(trainer.model(), requests, 5, type);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    INFO("text " << i);
    CHECK(together[i] == answers_of(trainer.model(), {requests[i]}, 1, type).front());
  }
  // Samples of a prompt begin with copies of its keys and values.
  std::vector<Tokens> prompts;
  for (std::int64_t prompt = 0; prompt < texts; ++prompt) prompts.push_back(request_of(prompt, 0).prompt);
  std::map<std::pair<std::int64_t, std::int64_t>, Tokens> copied;
  generate(trainer.model(), prompts,
           {.tokens = 12, .choice = requests.front().choice, .samples = samples, .batch = 4, .key_values = type},
           [&](const TextNumber& number, std::int64_t token) {
             copied[{number.prompt, number.sample}].push_back(token);
             return true;
           });
  for (std::size_t i = 0; i < requests.size(); ++i)
    CHECK(copied.at({requests[i].number.prompt, requests[i].number.sample}) == together[i].tokens);
}

TEST_CASE("keys and values in int8 and FP8 take a byte for each element, and four for each token and head") {
  const TrainingSetting setting;
  for (const bool is_bf16 : {false, true}) {
    LoneTrainer trainer(setting.recipe(wide + Overrides{is_bf16 ? "precision.compute=\"bf16\"" : "model.layers=3"}));
    // Three layers of two heads of eight.
    constexpr std::int64_t rows = 3 * 2 * 2 * 16;
    const auto load_with = [&](KeyValueType type) {
      return ContinuousBatch(trainer.model(), {.cache_bytes = 200 * rows, .key_values = type}).load();
    };
    for (const KeyValueType type : {KeyValueType::int8, KeyValueType::fp8}) {
      CHECK(load_with(type).block_bytes == rows * (8 + 4));
      CHECK(load_with(type).blocks == 200 / (8 + 4));
    }
    CHECK(load_with(KeyValueType::compute).blocks == 200 / (8 * (is_bf16 ? 2 : 4)));
  }
}

// Keys and values in int8 are off by 1/254 of their token's largest at most, and by a normal row's 2/127/√12, half a
// percent, on average; in FP8 each element is off by a sixteenth of itself at most, and by 2.6 % on average. What
// follows of scores of a few units is a few tenths of one at most, and to first order cancels in a loss near its
// minimum.
TEST_CASE("a trained model goes on nearly as it does without rounding, and a text is as likely") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe({"model.hidden_size=64", "model.layers=2", "model.max_sequence_length=192",
                                      "batch.sequence_length=96", "training.steps=160",
                                      R"(training.learning_rate={"peak": 0.003, "warmup_steps": 10})"}));
  for (int step = 0; step < 160; ++step) trainer.step();
  LocalModel& model = trainer.model();
  const Tokens unseen = lines_from(300, 190);
  const double exact = loss_of(model, unseen, KeyValueType::compute);
  CHECK(exact < 2);
  for (const KeyValueType type : {KeyValueType::int8, KeyValueType::fp8}) {
    const double rounded = loss_of(model, unseen, type);
    INFO("losses " << exact << " and " << rounded);
    CHECK(rounded != exact);
    CHECK(std::abs(rounded - exact) < 0.01 * exact);
    std::int64_t same = 0, all = 0;
    for (int first = 10; first < 18; ++first) {
      const Tokens text = lines_from(first, 40);
      const Tokens ours = continuation(model, text, 60, type),
                   theirs = continuation(model, text, 60, KeyValueType::compute);
      same += std::ranges::mismatch(ours, theirs).in1 - ours.begin();
      all += std::ssize(theirs);
    }
    INFO(same << " of " << all << " tokens before the first that differs");
    CHECK(10 * same >= 9 * all);
  }
}

TEST_CASE("keys and values in bytes are refused where others are read", "[refused]") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(wide));
  for (const KeyValueType type : {KeyValueType::int8, KeyValueType::fp8})
    CHECK_THROWS_WITH(ContinuousBatch(trainer.model(), {.is_exact = true, .key_values = type}),
                      Catch::Contains("--kv-cache-dtype") && Catch::Contains("--exact"));
}

}  // namespace llmtrain::test

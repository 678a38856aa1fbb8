// SPDX-License-Identifier: Apache-2.0
// Tokens that are computed one by one with a cache are those of computing the whole sequence again for each.
#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/engine/generation/continuation_scores.h"
#include "parallel/engine/generation/decoder.h"
#include "parallel/engine/generation/generation.h"
#include "parallel/engine/inference.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

using Tokens = std::vector<std::int64_t>;

// Initial weights ten times as large as usual, so that logits differ by more than rounding.
const Overrides large{"model.init_std=0.2"};
const Overrides gpt2{"model.architecture=\"gpt2\"", "model.kv_heads=4", "model.vocab_size=257"};
const Overrides rope{"model.architecture=\"gpt-rope\"", "model.kv_heads=1"};
const Overrides llama{"model.qk_norm=true"};
const Overrides experts{R"(model.moe={"experts": 4, "top_k": 2, "capacity_factor": 0, "shared_experts": 1})"};

Tokens text_of(std::string_view text) { return {text.begin(), text.end()}; }

// The last row of the logits of the whole sequence.
at::Tensor last_logits(LocalModel& model, const Tokens& tokens) {
  return logits_of(model, at::tensor(tokens, at::kLong)).select(0, static_cast<std::int64_t>(tokens.size()) - 1);
}

// Greedy continuation, computing what the model sees anew for each token.
Tokens recomputed(LocalModel& model, Tokens tokens, int count) {
  const auto window = static_cast<std::size_t>(model.graph().model.max_sequence_length);
  for (int i = 0; i < count; ++i) {
    const std::size_t seen = std::min(window, tokens.size());
    const Tokens last(tokens.end() - static_cast<std::ptrdiff_t>(seen), tokens.end());
    tokens.push_back(last_logits(model, last).argmax().item<std::int64_t>());
  }
  return tokens;
}

const std::vector<Tokens> prompts{text_of("line 4"), text_of("of the text;\nline"), text_of("x")};

GenerateOptions greedy(std::int64_t tokens) { return {.tokens = tokens, .choice = {.temperature = 0}}; }

using Texts = std::map<std::pair<std::int64_t, std::int64_t>, Tokens>;

Texts texts_of(LocalModel& model, const GenerateOptions& options) {
  Texts texts;
  generate(model, prompts, options, [&](const TextNumber& number, std::int64_t token) {
    texts[{number.prompt, number.sample}].push_back(token);
    return true;
  });
  return texts;
}

}  // namespace

TEST_CASE("logits with a cache are those of the whole sequence") {
  const TrainingSetting setting;
  const auto chosen = GENERATE(
      // fp32: the same sums in another order. bf16: a unit in the last place of logits up to 8, and FP8 in bf16.
      table<Overrides, double>({{gpt2, 1e-5},
                                {rope, 1e-5},
                                {llama, 1e-5},
                                {llama + experts, 1e-5},
                                {llama + Overrides{"kernels.attention=\"math\""}, 1e-5},
                                {gpt2 + Overrides{"precision.compute=\"bf16\""}, 0.02},
                                {llama + Overrides{"precision.compute=\"bf16\""}, 0.02},
                                {llama + Overrides{"precision.compute=\"bf16\"", "precision.fp8_level=\"O1\""}, 0.1}}));
  const Overrides& model = std::get<0>(chosen);
  const double bound = std::get<1>(chosen);  // a name of its own: Clang 14 captures no structured binding
  INFO(in_words(1, model));
  LoneTrainer trainer(setting.recipe(large + model));
  const Tokens tokens = text_of("line 16 of the text;\nli");
  Decoder decoder(trainer.model(), 2, 24);
  const auto next = [&](std::int64_t position, std::int64_t count) {
    return NewTokens{1, position, std::span(tokens).subspan(static_cast<std::size_t>(position), count)};
  };
  const auto compare = [&](const at::Tensor& logits, std::int64_t seen) {
    const at::Tensor expected = last_logits(trainer.model(), Tokens(tokens.begin(), tokens.begin() + seen));
    CHECK((logits.squeeze(0) - expected).abs().max().item<double>() <
          bound * std::max(1.0, expected.abs().max().item<double>()));
  };
  compare(decoder.logits(std::array{next(0, 6)}), 6);
  for (std::int64_t position = 6; position < 12; ++position)
    compare(decoder.logits(std::array{next(position, 1)}), position + 1);
  // Several at once after what is there.
  compare(decoder.logits(std::array{next(12, 11)}), 23);
}

TEST_CASE("greedy texts with a cache are those of computing everything anew, also beyond the window") {
  const TrainingSetting setting;
  const Overrides model = GENERATE(Overrides(gpt2), Overrides(rope), Overrides(llama), llama + experts);
  INFO(in_words(1, model));
  LoneTrainer trainer(setting.recipe(large + model));
  const auto texts = texts_of(trainer.model(), greedy(30));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Tokens whole = prompts[i];
    const Tokens& text = texts.at({static_cast<std::int64_t>(i), 0});
    whole.insert(whole.end(), text.begin(), text.end());
    CHECK(whole == recomputed(trainer.model(), prompts[i], 30));
    CHECK(whole == generate(trainer.model(), prompts[i], greedy(30)));
  }
}

TEST_CASE("experts drop no token of a text, whatever their capacity") {
  const TrainingSetting setting;
  const std::string moe = R"(model.moe={"experts": 4, "top_k": 2, "capacity_factor": )";
  LoneTrainer dropless(setting.recipe(large + Overrides{moe + "0}"}));
  LoneTrainer limited(setting.recipe(large + Overrides{moe + "0.5}"}));
  CHECK(texts_of(limited.model(), greedy(20)) == texts_of(dropless.model(), greedy(20)));
}

TEST_CASE("texts do not depend on those that grow beside them") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(large + llama));
  GenerateOptions options{.tokens = 12, .choice = {.temperature = 1.5, .top_k = 40, .top_p = 0.95}, .samples = 3};
  options.batch = 1;
  const Texts alone = texts_of(trainer.model(), options);
  CHECK(alone.size() == 9);
  CHECK(alone.at({0, 0}) != alone.at({0, 1}));
  for (const std::int64_t batch : {2, 4, 16}) {
    options.batch = batch;
    CHECK(texts_of(trainer.model(), options) == alone);
  }
  options.choice.seed = 1;
  CHECK(texts_of(trainer.model(), options) != alone);
}

TEST_CASE("a text ends where its listener says so, and its place goes to the next") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(large + llama));
  const Texts whole = texts_of(trainer.model(), greedy(9));
  GenerateOptions options = greedy(9);
  options.batch = 2;
  Texts texts;
  generate(trainer.model(), prompts, options, [&](const TextNumber& number, std::int64_t token) {
    Tokens& text = texts[{number.prompt, number.sample}];
    text.push_back(token);
    return static_cast<std::int64_t>(text.size()) < 3 + number.prompt;
  });
  for (const auto& [number, text] : texts) {
    CHECK(static_cast<std::int64_t>(text.size()) == 3 + number.first);
    CHECK(std::equal(text.begin(), text.end(), whole.at(number).begin()));
  }
  CHECK(texts.size() == prompts.size());
}

TEST_CASE("scores of continuations are sums of log-probabilities, whatever the texts share", "[ranks]") {
  const TrainingSetting setting;
  const std::vector<ScoredText> texts{{text_of("line 16 of"), 5},
                                      {text_of("line 16 in the text"), 7},
                                      {text_of("other"), 1},
                                      // Longer than the window of 24: its beginning is not seen.
                                      {text_of("line 25 of the text;\nline 36"), 20}};
  LoneTrainer trainer(setting.recipe(large + llama));
  std::vector<double> expected;
  for (const ScoredText& text : texts) {
    const std::size_t left_out = text.tokens.size() > 25 ? text.tokens.size() - 25 : 0;
    const Tokens seen(text.tokens.begin() + static_cast<std::ptrdiff_t>(left_out), text.tokens.end());
    const at::Tensor logits = logits_of(trainer.model(), at::tensor(seen, at::kLong).slice(0, 0, -1)).to(at::kDouble);
    const at::Tensor scores = at::log_softmax(logits, 1);
    expected.push_back(0);
    for (auto t = static_cast<std::size_t>(text.first) - left_out; t < seen.size(); ++t)
      expected.back() += scores[static_cast<std::int64_t>(t) - 1][seen[t]].item<double>();
  }
  const std::span<const ScoredText> all(texts);
  const Recipe recipe = setting.recipe(large + llama + Overrides{"parallel.tensor=2"});
  LocalWorld(2).run([&](Communicator& communicator) {
    Trainer here(layout_of(recipe, 2), communicator, at::kCPU);
    Decoder decoder(here.model(), 4, 24);
    // Two that begin alike, and all, which do not.
    for (const std::size_t count : {2, 4}) {
      const std::vector<double> found = continuation_scores(decoder, all.first(count), 24);
      for (std::size_t i = 0; i < count; ++i)
        if (std::abs(found[i] - expected[i]) > 1e-4) throw std::runtime_error("score " + std::to_string(i));
    }
  });
}

TEST_CASE("ranks generate the texts of one rank", "[ranks]") {
  const TrainingSetting setting;
  const auto [ranks, overrides, model] = GENERATE(table<int, Overrides, Overrides>({
      {2, {"parallel.tensor=2", "parallel.sequence=false"}, gpt2},
      {2, {"parallel.tensor=2", "parallel.sequence=true"}, llama + experts},
      {4, {"parallel.tensor=2", "parallel.sequence=false", "batch.micro=4"}, llama + experts},
      {3, {"parallel.pipeline=3", "batch.micro=1", "batch.global=12"}, llama},
      {4, {"parallel.tensor=2", "parallel.pipeline=2", "batch.micro=2"}, gpt2 + Overrides{"model.layers=4"}},
      {2, {zero(3), "pipeline.loops=3", "batch.micro=2"}, llama},
  }));
  // Each rank rounds its own heads' keys and values.
  const KeyValueType type = ranks == 4 ? KeyValueType::int8 : KeyValueType::compute;
  INFO(in_words(ranks, overrides + model));
  const GenerateOptions options{.tokens = 24, .choice = {.temperature = 1}, .samples = 2, .key_values = type};
  LoneTrainer trainer(setting.recipe(large + model));
  const Texts expected = texts_of(trainer.model(), options);
  const Recipe recipe = setting.recipe(large + model + overrides);
  std::vector<Texts> texts(static_cast<std::size_t>(ranks));
  LocalWorld(ranks).run([&, &ranks = ranks](Communicator& communicator) {
    Trainer here(layout_of(recipe, ranks), communicator, at::kCPU);
    texts[static_cast<std::size_t>(communicator.rank())] = texts_of(here.model(), options);
  });
  for (const Texts& own : texts) CHECK(own == expected);
}

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
// The log-probabilities of texts that grow together are, bit for bit, those that the trainer's passes over whole
// sequences compute of the same tokens.
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "kernels/separate_rows.h"
#include "parallel/engine/forward_pass.h"
#include "parallel/engine/generation/continuous_batch.h"
#include "parallel/engine/generation/exactness.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test::exact_replay {
namespace {

using Tokens = std::vector<std::int64_t>;

// Widths that no vector divides, and weights large enough that logits differ by more than rounding.
const Overrides small{"model.init_std=0.2", "model.max_sequence_length=300", "model.ffn_hidden_size=45"};
const Overrides gpt2{"model.architecture=\"gpt2\"", "model.kv_heads=4", "model.vocab_size=257"};
const Overrides llama{"model.qk_norm=true"};
const Overrides window{R"(model.sliding_window={"tokens": 21, "global_every": 2})"};
const Overrides experts{R"(model.moe={"experts": 4, "top_k": 2, "capacity_factor": 0, "shared_experts": 1})"};

// Texts that grow together, each of `length` tokens with its prompt, which has at least `shortest`.
struct Texts {
  std::int64_t count, shortest, length;
};

const Overrides bert{"model.architecture=\"bert\"", "model.kv_heads=4", "data.masking={\"token\": 0}"};

struct Answer {
  Tokens tokens;                          // with the prompt
  std::vector<double> log_probabilities;  // of those behind it
};

std::vector<Answer> answers_of(LocalModel& model, const Texts& texts) {
  ContinuousBatch batch(model, {.sequences = texts.count, .is_exact = true});
  std::vector<Answer> answers(static_cast<std::size_t>(texts.count));
  for (std::int64_t i = 0; i < texts.count; ++i) {
    Answer& answer = answers[static_cast<std::size_t>(i)];
    for (std::int64_t t = 0; t < texts.shortest + 7 * i % 30; ++t) answer.tokens.push_back((t * t + 31 * i) % 256);
    batch.add({.prompt = answer.tokens,
               .tokens = texts.length - std::ssize(answer.tokens),
               .choice = {.temperature = 1.2, .seed = i},
               .log_probabilities = 0},
              [&](const GrownToken& token) {
                answer.tokens.push_back(token.id);
                answer.log_probabilities.push_back(token.log_probability.value());
                return true;
              });
  }
  while (batch.step()) continue;
  return answers;
}

// The losses of all rows of a pass over whole sequences, [texts, length − 1].
at::Tensor losses_of(LocalModel& model, const std::vector<Answer>& answers, PassMode mode) {
  const std::int64_t count = std::ssize(answers), rows = std::ssize(answers.front().tokens) - 1;
  Tokens inputs, targets;
  for (const Answer& answer : answers) {
    inputs.insert(inputs.end(), answer.tokens.begin(), answer.tokens.end() - 1);
    targets.insert(targets.end(), answer.tokens.begin() + 1, answer.tokens.end());
  }
  PassInput input{{.fields = {}, .rows = {{.count = count, .length = rows}}}, {.mode = mode}};
  input.batch.field(BatchField::token_ids) = at::tensor(inputs, at::kLong);
  input.batch.field(BatchField::targets) = at::tensor(targets, at::kLong);
  ForwardPass pass(model);
  const StagePasses::Output output = pass.run(input);
  pass.finish();
  // Frees what training has kept.
  if (mode == PassMode::training) model.stage(0).passes->backward({}, 0, input.batch, input.context);
  return output.losses.front().rows.view({count, rows});
}

// How many of the answers' log-probabilities differ in any bit from the losses.
std::int64_t differing(const std::vector<Answer>& answers, const at::Tensor& losses) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::vector<double>& own = answers[i].log_probabilities;
    const std::int64_t first = losses.size(1) - std::ssize(own);
    for (std::size_t t = 0; t < own.size(); ++t) {
      const auto row = static_cast<std::int64_t>(i), column = first + static_cast<std::int64_t>(t);
      if (own[t] != -static_cast<double>(losses[row][column].item<float>())) ++count;
    }
  }
  return count;
}

}  // namespace

TEST_CASE("answers have the log-probabilities of the trainer's pass over whole sequences, bit for bit") {
  const TrainingSetting setting;
  const std::string type = GENERATE("fp32", "bf16", "fp16");
  const Overrides model =
      GENERATE(Overrides(gpt2), llama + window, llama + experts, llama + Overrides{"kernels.attention=\"math\""});
  INFO(in_words(1, model) << " in " << type);
  LoneTrainer trainer(setting.recipe(small + model + Overrides{"precision.compute=\"" + type + "\""}));
  // The last have prompts of two parts.
  std::vector<Texts> cases{{1, 1, 24}, {16, 1, 40}, {1, 255, 262}};
  // Every product widens the weights.
  if (type == "fp16") cases = {{3, 1, 40}};
  for (const Texts& texts : cases) {
    INFO(texts.count << " texts of " << texts.length);
    const std::vector<Answer> answers = answers_of(trainer.model(), texts);
    const kernels::SeparateRows separate(true);
    CHECK(differing(answers, losses_of(trainer.model(), answers, PassMode::evaluation)) == 0);
    // A library's backward generates code for each shape.
    if (texts.count > 1) CHECK(differing(answers, losses_of(trainer.model(), answers, PassMode::training)) == 0);
  }
}

TEST_CASE("answers of models with FP8 products have the log-probabilities of passes with rows apart, bit for bit") {
  const TrainingSetting setting;
  const std::string level = GENERATE("O0", "O1", "O2", "O3"), type = level == "O3" ? "fp32" : "bf16";
  const Overrides model = small + GENERATE(Overrides(gpt2), llama + window, llama + experts) +
                          Overrides{"precision.compute=\"" + type + "\""};
  INFO(in_words(1, model) << " at " << level);
  LoneTrainer trainer(setting.recipe(model + Overrides{"precision.fp8_level=\"" + level + "\""}));
  std::vector<Texts> cases{{16, 1, 40}};
  if (level == "O0") cases = {{1, 1, 24}, {16, 1, 40}, {1, 255, 262}};
  for (const Texts& texts : cases) {
    INFO(texts.count << " texts of " << texts.length);
    const std::vector<Answer> answers = answers_of(trainer.model(), texts);
    const kernels::SeparateRows separate(true);
    const at::Tensor losses = losses_of(trainer.model(), answers, PassMode::evaluation);
    CHECK(differing(answers, losses) == 0);
    if (texts.count > 1) CHECK(differing(answers, losses_of(trainer.model(), answers, PassMode::training)) == 0);
    // Products are of FP8 numbers.
    if (level != "O0") continue;
    LoneTrainer exact(setting.recipe(model));
    CHECK(differing(answers, losses_of(exact.model(), answers, PassMode::evaluation)) > 0);
  }
}

TEST_CASE("exactness is refused where rows are not apart") {
  const TrainingSetting setting;
  const auto refused = [&](const Overrides& model) {
    LoneTrainer trainer(setting.recipe(model));
    try {
      require_exactness(trainer.model(), "--exact");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::bad_recipe);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused({}).empty());
  CHECK(refused({"precision.compute=\"bf16\"", "precision.fp8_level=\"O0\""}).empty());
  CHECK_THAT(
      refused({R"(model.moe={"experts": 4, "top_k": 2, "capacity_factor": 1.5})"}),
      Catch::StartsWith("/model/moe/capacity_factor: ") && Catch::EndsWith("--exact does not apply, leave it out"));
  CHECK_THAT(refused(bert), Catch::StartsWith("/model/architecture: "));
}

}  // namespace llmtrain::test::exact_replay

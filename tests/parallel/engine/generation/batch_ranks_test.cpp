// SPDX-License-Identifier: Apache-2.0
// Ranks that share a model step one batch: each text is, bit for bit, the one that grows alone on the same ranks, and
// an exact batch has the log-probabilities of the trainer's pass on them.
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "kernels/separate_rows.h"
#include "parallel/engine/forward_pass.h"
#include "parallel/engine/generation/continuous_batch.h"
#include "parallel/engine/generation/generation.h"
#include "parallel/shard/rank_lead.h"
#include "tests/parallel/engine/generation/stepped_batch.h"

namespace llmtrain::test::batch_ranks {
namespace {

using Tokens = std::vector<std::int64_t>;

struct Answer {
  Tokens tokens;
  std::vector<double> log_probabilities;
  bool operator==(const Answer&) const = default;
};

void take(Answer& answer, const GrownToken& token) {
  answer.tokens.push_back(token.id);
  answer.log_probabilities.push_back(token.log_probability.value());
}

// Mostly short, some of several parts.
TextRequest request_of(std::mt19937& draws) {
  const auto between = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(draws);
  };
  TextRequest request;
  const std::int64_t length = between(0, 4) == 0 ? between(250, 280) : between(1, 40);
  for (std::int64_t i = 0; i < length; ++i) request.prompt.push_back(between(0, 255));
  request.tokens = between(1, 15);
  request.choice = {.temperature = between(0, 2) == 0 ? 0 : 1.3, .seed = between(0, 1000)};
  request.log_probabilities = 0;
  return request;
}

// On all ranks; only the one that leads has it.
Answer alone(LocalModel& model, const TextRequest& request, const BatchLimits& limits) {
  SteppedBatch stepped(model, limits);
  Answer answer;
  if (stepped.leads()) {
    stepped.batch().add(request, [&](const GrownToken& token) {
      take(answer, token);
      return true;
    });
    stepped.run_to_end();
  }
  stepped.follow();
  return answer;
}

bool is_empty(const ContinuousBatch::Load& load) {
  return load.waiting == 0 && load.growing == 0 && load.used_blocks == 0;
}

// Texts that come at any time, end early or are cancelled. Only the rank that leads checks, as Catch is not for
// threads.
void check_texts(LocalModel& model, const BatchLimits& limits) {
  std::mt19937 draws(7);
  std::vector<TextRequest> requests(8);
  for (TextRequest& request : requests) request = request_of(draws);
  std::vector<Answer> answers(requests.size());
  std::vector<std::size_t> lengths;
  for (const TextRequest& request : requests) lengths.push_back(static_cast<std::size_t>(request.tokens));
  SteppedBatch stepped(model, limits);
  if (stepped.leads()) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::int64_t number = stepped.batch().add(requests[i], [&, i](const GrownToken& token) {
        take(answers[i], token);
        return i % 4 != 1 || answers[i].tokens.size() < 2;  // as at a stop
      });
      for (std::size_t step = i % 3; step > 0; --step) stepped.step();
      if (i % 4 == 1) lengths[i] = std::min<std::size_t>(lengths[i], 2);
      if (i % 4 != 3) continue;
      stepped.batch().cancel(number);  // waits, is read, or grows
      lengths[i] = answers[i].tokens.size();
    }
    stepped.run_to_end();
  }
  stepped.follow();
  const std::vector<double> empty = model.groups().exchange(std::array{is_empty(stepped.batch().load()) ? 1.0 : 0.0});
  if (stepped.leads()) CHECK(std::ranges::count(empty, 1.0) == std::ssize(empty));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Answer expected = alone(model, requests[i], limits);
    const Tokens sampled =
        generate(model, requests[i].prompt,
                 {.tokens = requests[i].tokens, .choice = requests[i].choice, .key_values = limits.key_values});
    if (!stepped.leads()) continue;
    INFO("text " << i << " after " << requests[i].prompt.size());
    CHECK(std::ranges::equal(expected.tokens, std::span(sampled).subspan(requests[i].prompt.size())));
    CHECK(answers[i].tokens.size() == lengths[i]);
    expected.tokens.resize(answers[i].tokens.size());
    expected.log_probabilities.resize(answers[i].tokens.size());
    CHECK(answers[i] == expected);
  }
}

// The losses of all rows of the trainer's pass over whole sequences, [texts, length − 1]: of ranks with the head.
at::Tensor losses_of(LocalModel& model, const std::vector<Tokens>& texts, PassMode mode) {
  const std::int64_t count = std::ssize(texts), rows = std::ssize(texts.front()) - 1;
  Tokens inputs, targets;
  for (const Tokens& text : texts) {
    inputs.insert(inputs.end(), text.begin(), text.end() - 1);
    targets.insert(targets.end(), text.begin() + 1, text.end());
  }
  PassInput input{{.fields = {}, .rows = {{.count = count, .length = rows}}}, {.mode = mode}};
  input.batch.field(BatchField::token_ids) = at::tensor(inputs, at::kLong);
  input.batch.field(BatchField::targets) = at::tensor(targets, at::kLong);
  const kernels::SeparateRows separate(true);
  ForwardPass pass(model);
  const StagePasses::Output output = pass.run(input);
  pass.finish();
  // Frees what training has kept.
  if (mode == PassMode::training) model.stage(0).passes->backward({}, 0, input.batch, input.context);
  return output.losses.empty() ? at::Tensor() : output.losses.front().rows.view({count, rows});
}

// Texts of 41 tokens with their prompts, of which the ranks' pass has the same log-probabilities.
void check_exactness(LocalModel& model, std::int64_t count) {
  constexpr std::int64_t length = 41;
  std::vector<Tokens> texts(static_cast<std::size_t>(count));
  std::vector<std::vector<double>> found(texts.size());
  SteppedBatch stepped(model, {.sequences = count, .is_exact = true});
  const RankLead lead(model.groups());
  if (stepped.leads()) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto number = static_cast<std::int64_t>(i);
      for (std::int64_t t = 0; t < 1 + 7 * number % 30; ++t) texts[i].push_back((t * t + 31 * number) % 256);
      stepped.batch().add({.prompt = texts[i],
                           .tokens = length - std::ssize(texts[i]),
                           .choice = {.temperature = 1.2, .seed = number},
                           .log_probabilities = 0},
                          [&, i](const GrownToken& token) {
                            texts[i].push_back(token.id);
                            found[i].push_back(token.log_probability.value());
                            return true;
                          });
    }
    stepped.run_to_end();
  }
  stepped.follow();
  for (Tokens& text : texts) text = lead.tell(text);
  std::vector<PassMode> modes{PassMode::evaluation};
  // A stage of a pipeline needs gradients from the next for its backward.
  if (model.stage_count() == 1) modes.push_back(PassMode::training);
  for (const PassMode mode : modes) {
    const at::Tensor losses = losses_of(model, texts, mode);
    if (!stepped.leads()) continue;
    std::int64_t differing = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::int64_t first = losses.size(1) - std::ssize(found[i]);
      for (std::size_t t = 0; t < found[i].size(); ++t) {
        const auto row = static_cast<std::int64_t>(i), column = first + static_cast<std::int64_t>(t);
        if (found[i][t] != -static_cast<double>(losses[row][column].item<float>())) ++differing;
      }
    }
    CHECK(differing == 0);
  }
}

}  // namespace

TEST_CASE("texts of ranks that share a model are those that grow alone on them, bit for bit") {
  struct Case {
    Overrides model, layout;
    int ranks = 2;
    KeyValueType key_values = KeyValueType::compute;
  };
  const std::vector<Case> cases{{gpt2, tensor},
                                {llama + window + bf16, tensor},
                                {llama + experts, expert_tensor},
                                {llama, tensor, 2, KeyValueType::int8},
                                {llama + Overrides{"model.kv_heads=1"}, tensor},
                                {gpt2 + bf16, pipeline},
                                {llama + experts, expert_tensor + pipeline, 4}};
  for (const Case& one : cases) {
    INFO(in_words(one.ranks, one.model + one.layout));
    on_ranks(one.ranks, small + one.model + one.layout, [&](LocalModel& model) {
      check_texts(model, {.sequences = 3, .cache_bytes = std::int64_t{1} << 17, .key_values = one.key_values});
    });
  }
}

TEST_CASE("an exact batch of several ranks has the log-probabilities of their trainer's pass, bit for bit") {
  struct Case {
    Overrides model, layout;
    int ranks = 2;
  };
  const std::vector<Case> cases{{gpt2, tensor},
                                {llama + window + bf16, tensor},
                                {llama + experts, expert_tensor},
                                {gpt2 + bf16, pipeline},
                                {llama, tensor + pipeline, 4}};
  for (const Case& one : cases) {
    INFO(in_words(one.ranks, one.model + one.layout));
    on_ranks(one.ranks, small + Overrides{"model.ffn_hidden_size=46"} + one.model + one.layout, [](LocalModel& model) {
      for (const std::int64_t count : {1, 16}) check_exactness(model, count);
    });
  }
}

TEST_CASE("each rank's cache holds its own heads and layers") {
  const auto bytes_of = [](int ranks, const Overrides& overrides) {
    std::int64_t bytes = 0;
    on_ranks(ranks, small + overrides, [&](LocalModel& model) {
      const ContinuousBatch batch(model, {});
      if (batch.leads()) bytes = batch.load().block_bytes;
    });
    return bytes;
  };
  // 16 tokens of three layers, each with keys and values of two heads of eight fp32 numbers.
  const std::int64_t whole = 16 * 3 * 2 * 2 * 8 * 4;
  CHECK(bytes_of(1, llama) == whole);
  CHECK(bytes_of(2, llama + tensor) == whole / 2);
  // Both have a copy of the one head.
  CHECK(bytes_of(2, Overrides{"model.kv_heads=1"} + tensor) == whole / 2);
  // One rank has two of the layers.
  CHECK(bytes_of(2, llama + pipeline) == whole / 3 * 2);
}

TEST_CASE("a rank that fails ends the others' steps with its reason") {
  const auto step = [](LocalModel& model) {
    ContinuousBatch batch(model, {});
    if (!batch.leads()) throw Error(ExitCode::bad_data, "this rank cannot go on");
    batch.add({.prompt = {1, 2, 3}, .tokens = 5}, [](const GrownToken&) { return true; });
    batch.step();
  };
  std::string heard;
  const auto run = [&] {
    on_ranks(2, small + llama + tensor, [&](LocalModel& model) {
      try {
        step(model);
      } catch (const Error& error) {
        if (model.groups().is_first()) heard = error.what();
        throw;
      }
    });
  };
  CHECK_THROWS_WITH(run(), "this rank cannot go on");
  CHECK(heard == "rank 1: this rank cannot go on");
}

TEST_CASE("texts come to the rank that leads alone: to the first with the head") {
  std::vector<std::string> said(2);
  on_ranks(2, small + llama + pipeline, [&](LocalModel& model) {
    ContinuousBatch batch(model, {});
    try {
      batch.add({.prompt = {1}, .tokens = 1}, [](const GrownToken&) { return true; });
    } catch (const Error& error) {
      said[static_cast<std::size_t>(model.groups().pipeline.position())] = error.what();
    }
  });
  CHECK_THAT(said[0], Catch::Contains("the rank that leads alone"));
  CHECK(said[1].empty());
}

}  // namespace llmtrain::test::batch_ranks

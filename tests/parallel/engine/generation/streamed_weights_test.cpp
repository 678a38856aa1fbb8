// SPDX-License-Identifier: Apache-2.0
// A model most of whose weights are in a file computes what one computes that has them in memory, bit for bit, in the
// memory that it was given.
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "parallel/engine/generation/continuous_batch.h"
#include "parallel/engine/generation/generation.h"
#include "parallel/engine/inference.h"
#include "parallel/engine/model_state.h"
#include "tests/parallel/engine/named_weights.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

const Overrides large{"model.init_std=0.2", "model.max_sequence_length=300", "model.layers=5"};
const Overrides gpt2{"model.architecture=\"gpt2\"", "model.kv_heads=4", "model.vocab_size=257"};
const Overrides tied{"model.tie_embeddings=true"};
const Overrides experts{R"(model.moe={"experts": 4, "top_k": 2, "capacity_factor": 0, "shared_experts": 1})"};
const Overrides window{R"(model.sliding_window={"tokens": 21, "global_every": 2})"};

std::shared_ptr<const Layout> streamed_layout(const Recipe& recipe) {
  return std::make_shared<const Layout>(partition_by_blocks(recipe));
}

// A model with all weights in memory, or in so much of it.
class ReadModel : LoneRank {
 public:
  ReadModel(const Recipe& recipe, const WeightSource& weights, const std::optional<WeightMemory>& memory)
      : model_(memory ? std::make_unique<LocalModel>(streamed_layout(recipe), *communicator, *memory)
                      : std::make_unique<LocalModel>(layout_of(recipe, 1), *communicator, at::kCPU,
                                                     StateContents::weights)) {
    load_weights(*model_, weights);
  }

  LocalModel& operator*() const { return *model_; }
  LocalModel* operator->() const { return model_.get(); }

 private:
  std::unique_ptr<LocalModel> model_;
};

struct Answers {
  std::vector<std::int64_t> tokens;
  std::vector<double> log_probabilities;
  bool operator==(const Answers&) const = default;
};

// Five texts that come and go, three at once.
Answers answers_of(LocalModel& model, const BatchLimits& limits) {
  ContinuousBatch batch(model, limits);
  std::vector<Answers> answers(5);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    TextRequest request;
    for (std::size_t token = 0; token < 3 + 60 * i; ++token)
      request.prompt.push_back(static_cast<std::int64_t>((7 * token + i) % 256));
    request.tokens = static_cast<std::int64_t>(4 + i);
    request.log_probabilities = 0;
    request.choice.seed = static_cast<std::int64_t>(i);
    batch.add(std::move(request), [&answer = answers[i]](const GrownToken& token) {
      answer.tokens.push_back(token.id);
      answer.log_probabilities.push_back(*token.log_probability);
      return true;
    });
  }
  while (batch.step()) continue;
  Answers all;
  for (const Answers& answer : answers) {
    all.tokens.insert(all.tokens.end(), answer.tokens.begin(), answer.tokens.end());
    all.log_probabilities.insert(all.log_probabilities.end(), answer.log_probabilities.begin(),
                                 answer.log_probabilities.end());
  }
  return all;
}

// The least memory, more of it, and all that the weights take.
std::vector<std::int64_t> memories(const Recipe& recipe) {
  const auto layout = streamed_layout(recipe);
  const StreamedWeights least = streamed_weights(layout->partition(), 0, "");
  return {0, least.memory_bytes() + 2 * least.largest_bytes, std::int64_t{1} << 40};
}

}  // namespace

TEST_CASE("weights in a file make the answers and losses of those in memory, bit for bit") {
  const TrainingSetting setting;
  const Overrides model =
      GENERATE(gpt2 + tied, window + tied, experts, experts + Overrides{"precision.compute=\"bf16\""},
               gpt2 + Overrides{"precision.compute=\"fp16\""});
  INFO(in_words(1, model));
  const Recipe recipe = setting.recipe(large + model);
  LoneTrainer trainer(recipe);
  const NamedWeightSource weights(named_weights(trainer.model()));
  const ReadModel whole(recipe, weights, std::nullopt);
  const TemporaryDirectory folder;
  for (const std::int64_t bytes : memories(recipe)) {
    INFO(bytes << " bytes");
    const ReadModel streamed(recipe, weights, WeightMemory{.bytes = bytes, .folder = folder.path().string()});
    for (const BatchLimits& limits : {BatchLimits{.sequences = 3}, BatchLimits{.sequences = 3, .is_exact = true},
                                      BatchLimits{.sequences = 3, .key_values = KeyValueType::int8}}) {
      if (limits.is_exact && recipe.precision.compute == DataType::fp16) continue;
      const Answers expected = answers_of(*whole, limits), found = answers_of(*streamed, limits);
      CHECK(found == expected);
    }
    const at::Tensor tokens = at::tensor({5, 9, 200, 41, 7}, at::kLong);
    const at::Tensor expected = logits_of(*whole, tokens);
    // A pass reads each layer once, and the next one reads them again.
    for (int pass = 0; pass < 3; ++pass) {
      const std::int64_t before = streamed->weight_stream()->bytes_used();
      CHECK(logits_of(*streamed, tokens).equal(expected));
      CHECK(streamed->weight_stream()->bytes_used() - before == streamed->weight_stream()->weights().bytes_per_pass);
    }
  }
}

TEST_CASE("ranks that share layers make the same answers with their weights in files, bit for bit") {
  const TrainingSetting setting;
  const TemporaryDirectory folder;
  for (const Overrides& model : {gpt2 + tied, window + experts}) {
    INFO(in_words(2, model));
    const Recipe recipe = setting.recipe(large + model);
    LoneTrainer trainer(recipe);
    const NamedWeightSource weights(named_weights(trainer.model()));
    const auto layout = std::make_shared<const Layout>(partition_by_blocks(recipe, 2));
    const std::int64_t least = streamed_weights(layout->partition(), 0, "").memory_bytes();
    std::vector<std::vector<std::int64_t>> texts;
    for (const std::optional<std::int64_t>& bytes : {std::optional<std::int64_t>(), std::optional(least)})
      LocalWorld(2).run([&](Communicator& communicator) {
        auto read = bytes ? std::make_unique<LocalModel>(
                                layout, communicator, WeightMemory{.bytes = *bytes, .folder = folder.path().string()})
                          : std::make_unique<LocalModel>(layout, communicator, at::kCPU, StateContents::weights);
        load_weights(*read, weights);
        std::vector<std::int64_t> text = generate(*read, {5, 9, 200, 41, 7}, {.tokens = 31, .choice = {.seed = 4}});
        const at::Tensor logits = logits_of(*read, at::tensor(text, at::kLong));
        if (communicator.rank() != 0) return;
        // Their bits, too.
        const auto* bits = reinterpret_cast<const std::int32_t*>(logits.const_data_ptr<float>());
        text.insert(text.end(), bits, bits + logits.numel());
        texts.push_back(std::move(text));
        if (bytes) CHECK(read->weight_stream()->weights().streamed_stages == 5);
      });
    const bool are_same = texts[0] == texts[1];
    CHECK(are_same);
    // Each rank has half of what one rank reads.
    const StreamedWeights own = streamed_weights(layout->partition(), 0, "");
    const StreamedWeights whole = streamed_weights(streamed_layout(recipe)->partition(), 0, "");
    CHECK(static_cast<double>(own.bytes_per_pass) < 0.65 * static_cast<double>(whole.bytes_per_pass));
  }
}

TEST_CASE("layers stay in memory as far as it goes, and less than two at a time is refused") {
  const TrainingSetting setting;
  const auto layout = streamed_layout(setting.recipe(large + tied));
  const Partition& partition = layout->partition();
  const StreamedWeights least = streamed_weights(partition, 0, "--weight-memory");
  // A layer's weights: queries and results 32 × 32 each, keys and values 16 × 32 each, three matrices of
  // 32 × 48 and two norms of 32, in fp32, filled up to whole blocks of the disk.
  const std::int64_t layer = ScratchFile::aligned(4 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 32 * 48 + 2 * 32));
  CHECK(least.streamed_stages == 5);
  CHECK(least.bytes_per_pass == 5 * layer);
  CHECK(least.resident_bytes == 4 * (256 * 32 + 32));  // embeddings, which the head shares, and its norm
  CHECK(least.memory_bytes() == least.resident_bytes + 2 * layer);
  const StreamedWeights more = streamed_weights(partition, least.memory_bytes() + 2 * layer, "--weight-memory");
  CHECK(more.bytes_per_pass == 3 * layer);
  CHECK(more.memory_bytes() <= least.memory_bytes() + 2 * layer);
  const StreamedWeights all = streamed_weights(partition, least.resident_bytes + 5 * layer, "--weight-memory");
  CHECK(all.bytes_per_pass == 0);
  CHECK_THROWS_WITH(streamed_weights(partition, least.memory_bytes() - 1, "--weight-memory"),
                    Catch::Contains("--weight-memory " + std::to_string(least.memory_bytes() - 1)) &&
                        Catch::Contains(std::to_string(least.memory_bytes()) + " bytes"));
}

}  // namespace llmtrain::test

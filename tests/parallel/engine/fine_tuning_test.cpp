// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "parallel/engine/data/batch_loader.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

// As a server tells of what a model has written: the text is its ids.
std::string row_of_ids(const std::string& text, std::size_t prompt, const std::string& experts) {
  const auto ids = [](const std::string& part) {
    return fmt::format("{}", fmt::join(std::vector<int>(part.begin(), part.end()), ", "));
  };
  std::string row = fmt::format(R"({{"prompt_token_ids": [{}], "token_ids": [{}])", ids(text.substr(0, prompt)),
                                ids(text.substr(prompt)));
  if (!experts.empty()) row += R"(, "routed_experts": [)" + experts + "]";
  return row + "}\n";
}

// Eight documents that fill four sequences of 24 tokens: 14 + 10, 16 + 8, 12 + 11, 15 + 7 inputs, and nothing that is
// the same in two of them. Prompts have from 3 to 6 bytes.
// With `experts` they are rows of token ids, which tell those of so many tokens where it says any.
using ExpertsOfText = std::function<std::string(std::size_t text, int tokens)>;
std::string conversations(const ExpertsOfText& experts) {
  const std::vector<int> lengths{14, 16, 12, 15, 10, 7, 11, 8};
  std::string lines;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::string text;
    for (int k = 0; k <= lengths[i]; ++k) text += static_cast<char>('a' + (k * k + 5 * static_cast<int>(i)) % 26);
    const std::size_t prompt = 3 + i % 4;
    if (experts) {
      lines += row_of_ids(text, prompt, experts(i, lengths[i]));
      continue;
    }
    lines += R"({"prompt": ")" + text.substr(0, prompt) + R"(", "completion": ")" + text.substr(prompt) + "\"}\n";
  }
  return lines;
}

class FineTuning {
 public:
  explicit FineTuning(const ExpertsOfText& experts = {})
      : file_(setting_.directory().write("chat.jsonl", conversations(experts)).string()) {}

  const TrainingSetting& setting() const { return setting_; }

  // All documents are a batch: of eight sequences, or packed of four.
  Overrides overrides(bool packing, const Overrides& more = {}) const {
    const std::string flag = packing ? "true" : "false", global = packing ? "4" : "8";
    return Overrides{"data.train.0.path=" + file_,       "data.validation.0.path=" + file_,
                     "data.fine_tuning.packing=" + flag, "data.shuffle=false",
                     "batch.global=" + global,           "batch.micro=" + global} +
           more;
  }
  Run train(bool packing, const Overrides& more = {}) const { return setting_.train(overrides(packing, more)); }

 private:
  TrainingSetting setting_;
  std::string file_;
};

const Overrides gpt2{"model.architecture=gpt2", "model.kv_heads=4", "model.ffn_hidden_size=64"};

}  // namespace

TEST_CASE("Packed documents are learned as if each had a sequence of its own", "[trainer]") {
  const FineTuning tuning;
  const std::vector<Overrides> cases{{},
                                     gpt2,
                                     {"kernels.attention=math"},
                                     {"model.qk_norm=true", "memory.recompute=full"},
                                     {"kernels.attention=math", "memory.recompute=selective", "batch.micro=1"}};
  for (const Overrides& each : cases) {
    CAPTURE(each);
    check_close(tuning.train(true, each), tuning.train(false, each), 1e-5, 1e-4);
  }
}

TEST_CASE("Losses of fine-tuning do not depend on the layout", "[trainer]") {
  const FineTuning tuning;
  const Run expected = tuning.train(true);
  // Sequences have different numbers of tokens that count.
  check_close(tuning.train(true, {"batch.micro=1"}), expected, 1e-5, 1e-4);
  check_close(tuning.train(true, {"batch.micro=2", "pipeline.loops=3"}), expected, 1e-5, 1e-4);
  const std::vector<Overrides> layouts{{"batch.micro=1", zero(2)},
                                       {"parallel.tensor=2", "batch.micro=2"},
                                       {"parallel.tensor=2", "parallel.sequence=false"},
                                       {"parallel.pipeline=2", "pipeline.balance=[2,1]", "batch.micro=1"}};
  for (const Overrides& layout : layouts) {
    CAPTURE(layout);
    check_close(train_ranks(tuning.setting(), 2, tuning.overrides(true, layout), 6), expected, 1e-5, 1e-4);
  }
  // Context ranks share sequences, packed or not.
  for (const bool packing : {false, true}) {
    const Overrides context = tuning.overrides(packing, {"parallel.context=2"});
    check_close(train_ranks(tuning.setting(), 2, context, 6), expected, 1e-5, 1e-4);
  }
  const Run learned = tuning.train(true, gpt2);
  check_close(train_ranks(tuning.setting(), 2, tuning.overrides(true, gpt2 + Overrides{"parallel.tensor=2"}), 6),
              learned, 1e-5, 1e-4);
}

// Routers learn from all rows, of which a micro-batch is a share whatever counts in it.
TEST_CASE("Losses of routers in fine-tuning do not depend on how a batch is split", "[trainer]") {
  const FineTuning tuning;
  const Overrides experts{R"(model.moe={"experts": 4, "capacity_factor": 0, "balance_loss": "none"})"};
  const Overrides taught = experts + Overrides{"model.moe.z_coefficient=0.5"};
  const Run expected = tuning.train(true, taught);
  CHECK(expected.losses.back() != tuning.train(true, experts).losses.back());
  // The z-loss is a mean over rows: micro-batches of one sequence add up to that of four.
  check_close(tuning.train(true, taught + Overrides{"batch.micro=1"}), expected, 1e-5, 1e-4);
  const std::vector<Overrides> layouts{
      {"batch.micro=1"}, {"parallel.expert=2", "batch.micro=1"}, {"parallel.tensor=2"}, {"parallel.context=2"}};
  for (const Overrides& layout : layouts) {
    CAPTURE(layout);
    check_close(train_ranks(tuning.setting(), 2, tuning.overrides(true, taught + layout), 6), expected, 1e-5, 1e-4);
  }
}

TEST_CASE("Tokens go to the experts that their rows tell, whatever the layout", "[trainer]") {
  const Overrides experts{
      R"(model.moe={"experts": 4, "top_k": 2, "every": 2, "capacity_factor": 0, "balance_loss": "none", "z_coefficient": 0.1})",
      "model.layers=4"};
  const Overrides replay = experts + Overrides{"data.fine_tuning.routing_replay=true"};
  const FineTuning texts;
  // Without those of the third text; of the others first and last choices differ by layer and token.
  const FineTuning tuning([](std::size_t text, int tokens) {
    if (text == 2) return std::string();
    std::string told;
    for (int t = 0; t < tokens; ++t) {
      const int first = (t * t + static_cast<int>(text)) % 4, second = (first + 1 + t % 3) % 4;
      told += fmt::format("{}[[{}, {}], [{}, {}]]", t == 0 ? "" : ", ", first, second, second, first);
    }
    return told;
  });
  // What is not asked for is not read.
  check_equal(tuning.train(true, experts), texts.train(true, experts));
  const Run expected = tuning.train(true, replay);
  CHECK(expected.losses.front() != texts.train(true, experts).losses.front());
  check_equal(tuning.train(true, replay + Overrides{"memory.recompute=full"}), expected);
  check_close(tuning.train(true, replay + Overrides{"batch.micro=1"}), expected, 1e-5, 1e-4);
  const std::vector<RankCase> layouts{{2, {"parallel.expert=2", "batch.micro=1"}},
                                      {2, {"parallel.tensor=2", "batch.micro=2"}},
                                      {2, {"parallel.tensor=2", "parallel.sequence=false"}},
                                      {2, {"parallel.context=2"}},
                                      {4, {"parallel.tensor=2", "parallel.pipeline=2", "batch.micro=1"}}};
  for (const RankCase& layout : layouts) {
    CAPTURE(layout.overrides);
    check_close(train_ranks(tuning.setting(), layout.ranks, tuning.overrides(true, replay + layout.overrides), 6),
                expected, 1e-5, 1e-4);
  }
}

// The second of two context ranks has the middle of 24 tokens, where these documents have no token that counts: what a
// rank has not computed is 0, not what its memory held before.
TEST_CASE("A context rank without tokens that count adds nothing to the gradients", "[trainer]") {
  const TrainingSetting setting;
  std::string lines;
  for (int i = 0; i < 8; ++i)
    lines += R"({"prompt": "a)" + std::string(1, static_cast<char>('b' + i)) + R"(", "completion": "x)" +
             std::string(1, static_cast<char>('k' + i)) + "z\"}\n";
  const std::string file = setting.directory().write("short.jsonl", lines).string();
  const Overrides documents{"data.train.0.path=" + file,
                            "data.validation.0.path=" + file,
                            "data.fine_tuning.packing=false",
                            "data.shuffle=false",
                            "batch.global=8",
                            "batch.micro=2"};
  const Overrides tied = documents + Overrides{"model.tie_embeddings=true"},
                  head = documents + Overrides{R"(training.freeze=["embedding.*","layers.*","final_norm.*"])"};
  const Run of_tied = setting.train(tied), of_head = setting.train(head);
  for (const int stage : {0, 2}) {
    CAPTURE(stage);
    for (const Overrides& order : {Overrides{}, Overrides{"pipeline.schedule=\"1f1b\""}}) {
      CAPTURE(order);
      const Overrides pipeline{"parallel.context=2", "parallel.pipeline=2", "pipeline.balance=[2,1]", zero(stage)};
      check_close(train_ranks(setting, 4, tied + pipeline + order, 6), of_tied, 1e-5, 1e-4);
    }
    check_close(train_ranks(setting, 2, head + Overrides{"parallel.context=2", zero(stage)}, 6), of_head, 1e-5, 1e-4);
  }
}

TEST_CASE("An evaluation is the mean over the tokens that count", "[trainer]") {
  const FineTuning tuning;
  LoneTrainer packed(tuning.setting().recipe(tuning.overrides(true)));
  LoneTrainer alone(tuning.setting().recipe(tuning.overrides(false)));
  const double expected = alone.evaluate();
  CHECK(packed.evaluate() == Approx(expected).epsilon(1e-5));
  // The first step's loss is that of the same documents before any update.
  CHECK(alone.step().loss == Approx(expected).epsilon(1e-6));
}

TEST_CASE("A micro-batch of packed documents has their rows and positions", "[trainer]") {
  const FineTuning tuning;
  const Recipe recipe = tuning.setting().recipe(tuning.overrides(true));
  const Dataset dataset(recipe.data.train, {recipe.data.tokenizer, recipe.data.fine_tuning}, 24, 256, false, 0, "");
  const Batch batch = load_samples(dataset, {0, 1, {}}, 0, 2, at::kCPU);
  // 14 + 10 and 16 + 8, the shorter of which has room in two.
  using kernels::PositionRun;
  CHECK((batch.sequences().documents == std::vector<PositionRun>{{0, 14}, {14, 10}, {24, 16}, {40, 8}}));
  CHECK(batch.sequences().positions[13].item<std::int64_t>() == 13);
  CHECK(batch.sequences().positions[14].item<std::int64_t>() == 0);
  // All of each document counts but its prompt, of which the last byte predicts the completion.
  const std::int64_t counted = (14 - 2) + (10 - 2) + (16 - 3) + (8 - 5);
  CHECK(batch.field(BatchField::counted_rows).size(0) == counted);
  CHECK(dataset.weight(0, 0, 2) == counted);
  CHECK(batch.field(BatchField::counted_rows)[0].item<std::int64_t>() == 2);
  // What the recipe says of its samples before they are read.
  std::vector<BatchField> sampled;
  for (const SampleField& field : dataset.fields()) sampled.push_back(field.name);
  CHECK((sampled == sample_fields(recipe.data)));
}

}  // namespace llmtrain::test

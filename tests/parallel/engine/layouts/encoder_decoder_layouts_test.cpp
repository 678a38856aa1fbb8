// SPDX-License-Identifier: Apache-2.0
// Encoder-decoders, whose two sides have rows of their own: what one rank learns, whatever the layout, and plans that
// are what runs.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/parallel/engine/layouts/learned_states.h"
#include "tests/parallel/engine/planned/planned_run.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

// A tokenizer of digits, two letters and blanks, with a mark behind texts.
std::string tokenizer() {
  return R"({"model": {"type": "BPE", "merges": [],
    "vocab": {"0": 0, "1": 1, "2": 2, "3": 3, "4": 4, "5": 5, "6": 6, "7": 7, "8": 8, "9": 9, "a": 10, "b": 11,
              "Ġ": 12, "</s>": 13}},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "decoder": {"type": "ByteLevel"},
    "added_tokens": [{"id": 13, "content": "</s>", "special": true}],
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
      "special_tokens": {"</s>": {"id": "</s>", "ids": [13], "tokens": ["</s>"]}}}})";
}

// Pairs of which a target is its source from behind.
class PairSetting {
 public:
  PairSetting() {
    std::string rows;
    for (int i = 0; i < 60; ++i) {
      const std::string source = std::to_string(i * i * 7 + 1) + (i % 3 == 0 ? "" : " ab");
      rows += R"({"source": ")" + source + R"(", "target": ")" + std::string(source.rbegin(), source.rend()) + "\"}\n";
    }
    const std::string data = setting_.directory().write("pairs.jsonl", rows).string();
    const std::string file = setting_.directory().write("tokenizer.json", tokenizer()).string();
    const std::string sources = "=[{\"path\": \"" + data + "\"}]";
    overrides_ = {"data.tokenizer={\"huggingface\": \"" + file + "\"}",
                  "data.train" + sources,
                  "data.validation" + sources,
                  "data.pairs={\"target_length\": 10, \"decoder_start\": 14}",
                  "model.vocab_size=16",
                  "model.kv_heads=4",
                  "model.layers=2",
                  "model.decoder_layers=2"};
  }

  const TrainingSetting& setting() const { return setting_; }
  const Overrides& overrides() const { return overrides_; }

 private:
  TrainingSetting setting_;
  Overrides overrides_;
};

const Overrides t5{"model.architecture=\"t5\""}, bart{"model.architecture=\"bart\""};
// Nothing is clipped, so that a step is a function of each parameter's gradient alone.
const Overrides in_steps{"batch.micro=4", "training.clip_norm=0", "training.label_smoothing=0.1"};

Learned learn(const PairSetting& pairs, const RankCase& layout, std::int64_t steps = 3) {
  return learn_states(pairs.setting().recipe(pairs.overrides() + in_steps + layout.overrides), layout.ranks, steps);
}

void check_bits(const PairSetting& pairs, const Overrides& model) {
  check_layouts(
      [&](const RankCase& layout) { return learn(pairs, layout); }, model,
      {{1, {"memory.recompute=\"selective\""}}, {1, {"memory.recompute=\"full\""}}, {1, {"pipeline.loops=4"}}});
}

void check_pipelines(const PairSetting& pairs, const Overrides& model) {
  const Learned expected = learn(pairs, {1, model}, 6);
  const std::vector<RankCase> layouts{
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"interleaved\"", "pipeline.loops=2"}},
      {4, {"parallel.pipeline=4", "pipeline.schedule=\"gpipe\"", "memory.recompute=\"full\""}},
      {4, {"parallel.pipeline=2", zero(3)}},
      {2, {"parallel.pipeline=2", "pipeline.balance=\"blocks\""}},
      {1, {"memory.chunks=3"}},
      {2, {"memory.chunks=2", "parallel.pipeline=2"}},
  };
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides + model));
    const Learned got = learn(pairs, {layout.ranks, layout.overrides + model}, 6);
    check_close(got.run, expected.run, 1e-5, 1e-4);
    CHECK(got.evaluated == Approx(expected.evaluated).epsilon(1e-5));
  }
}

}  // namespace

TEST_CASE("an encoder-decoder learns the same bits whatever is computed again or sharded", "[ranks]") {
  const PairSetting pairs;
  check_bits(pairs, t5);
  check_bits(pairs, bart);
  check_bits(pairs, bart + Overrides{"model.dropout=0.1"});
  check_bits(pairs, t5 + Overrides{"precision.compute=\"bf16\""});
}

// The table of tokens has readers on several stages, and T5's tables of relative positions, too: their gradients are
// sums over stages.
TEST_CASE("an encoder-decoder learns the same on any pipeline and in pieces, but for rounding", "[ranks]") {
  const PairSetting pairs;
  check_pipelines(pairs, t5);
  check_pipelines(pairs, bart);
  check_pipelines(pairs, t5 + Overrides{"model.tie_embeddings=false", "model.activation=\"geglu_tanh\""});
}

TEST_CASE("a step of an encoder-decoder does what is planned, and takes the memory that is planned") {
  const PairSetting pairs;
  const Overrides sizes{"data.pairs={\"target_length\": 12, \"decoder_start\": 14}", "model.layers=2"};
  const std::vector<RankCase> layouts{
      {1, {}},
      {1, {"memory.recompute=\"selective\""}},
      {1, {"memory.recompute=\"full\""}},
      {2, {zero(1)}},
      {2, {zero(2)}},
      {2, {zero(3)}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
      {4, {"parallel.pipeline=2", zero(3)}},
      {4, {"parallel.pipeline=4", "memory.recompute=\"full\""}},
      {1, {"memory.chunks=2"}},
      {1, {"memory.chunks=3", "memory.recompute=\"full\""}},
  };
  for (const Overrides& model : {t5, bart})
    for (const RankCase& layout : layouts)
      check_layout(pairs.setting(), {layout.ranks, pairs.overrides() + model + sizes + layout.overrides});
}

}  // namespace llmtrain::test

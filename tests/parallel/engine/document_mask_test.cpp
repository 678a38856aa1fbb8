// SPDX-License-Identifier: Apache-2.0
// Attention within documents on any layout; tests/oracle compares what is learned with PyTorch.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/parallel/engine/token_files.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

constexpr int masked_steps = 6;

// Each line of the text is a document, of which two or three share a sequence.
const Overrides masked{R"(data.document_mask={"end_of_text": 10})", "batch.micro=2"};
const Overrides learned_positions{"model.architecture=gpt2"};
const Overrides math_attention{"kernels.attention=math", "memory.recompute=\"selective\""};
const Overrides masked_dropping{"model.layers=4", R"(training.token_dropping={"start": 8, "steps": 5, "multiple": 4})"};

void check_layouts(const TrainingSetting& setting, const Overrides& model, const std::vector<RankCase>& layouts) {
  const Run expected = setting.train(masked + model, masked_steps);
  for (const RankCase& each : layouts) {
    INFO(in_words(each.ranks, model + each.overrides));
    check_close(train_ranks(setting, each.ranks, masked + model + each.overrides, masked_steps), expected, 1e-5, 1e-4);
  }
}

// The bytes of the text as tokens: documents that each end with a character.
TokenDocuments documents_until(char end) {
  TokenDocuments documents(1);
  for (const char character : training_text()) {
    documents.back().push_back(static_cast<unsigned char>(character));
    if (character == end) documents.emplace_back();
  }
  return documents;
}

}  // namespace

TEST_CASE("what attention within documents learns does not depend on the layout", "[ranks]") {
  const TrainingSetting setting;
  // Context ranks have runs that begin and end within documents, and documents of which a rank has nothing.
  const std::vector<RankCase> layouts{
      {2, {"parallel.context=2"}},
      {2, {"parallel.tensor=2", "batch.micro=4"}},
      {4, {"parallel.context=2", "parallel.tensor=2", "memory.recompute=\"full\""}},
      {4, {zero(3), "pipeline.loops=3", "batch.micro=1"}},
      {8, {"parallel.context=4", "parallel.pipeline=2", "pipeline.balance=[2,1]", "pipeline.schedule=\"1f1b\""}},
  };
  for (const Overrides& model : {Overrides{}, learned_positions, math_attention})
    check_layouts(setting, model, layouts);
}

TEST_CASE("kept tokens attend to those of their document on any layout", "[ranks]") {
  check_layouts(TrainingSetting(), masked_dropping,
                {{2, {"parallel.tensor=2", "parallel.sequence=false"}}, {2, {"parallel.pipeline=2", "batch.micro=1"}}});
}

TEST_CASE("experts learn on many ranks what they learn on one within documents", "[ranks]") {
  check_layouts(TrainingSetting(), {R"(model.moe={"experts": 4, "top_k": 2, "ffn_hidden_size": 24})"},
                {{2, {"parallel.expert=2"}}, {4, {"parallel.expert=2", "parallel.context=2"}}});
}

TEST_CASE("an index says where documents begin, whatever the token that ends others", "[trainer]") {
  const TrainingSetting setting;
  const auto write = [&](const char* name, TokenFileFormat format, char end) {
    return train_on(setting.directory().path() / name, format, documents_until(end));
  };
  const std::string plain = write("plain", TokenFileFormat::nanogpt, ' ');
  const std::string lines = write("lines", TokenFileFormat::megatron, '\n');
  const std::string words = write("words", TokenFileFormat::megatron, ' ');
  const auto train = [&](const std::string& data, int end) {
    return setting.train({data, R"(data.document_mask={"end_of_text": )" + std::to_string(end) + "}"}, 3);
  };
  check_equal(train(lines, '\n'), train(plain, '\n'));
  check_equal(train(words, '\n'), train(plain, ' '));
  CHECK(train(plain, ' ').losses != train(plain, '\n').losses);
}

TEST_CASE("an evaluation stays within documents, too", "[trainer]") {
  const TrainingSetting setting;
  const Overrides in_order = masked + Overrides{"data.shuffle=false", "training.evaluate_batches=1"};
  LoneTrainer trainer(setting.recipe(in_order));
  const double before = trainer.evaluate();
  CHECK(trainer.step().loss == Approx(before).epsilon(1e-6));
  // Without the mask tokens see more, and have other losses.
  CHECK(setting.train({"data.shuffle=false"}, 1).losses[0] != Approx(before).epsilon(1e-4));
}

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters on every layout, and their weights on the way to checkpoints and exports.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/graph/adapters.h"
#include "core/huggingface/adapters.h"
#include "parallel/engine/model_state.h"
#include "tests/parallel/engine/named_weights.h"
#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

const std::string all_matrices = R"(model.lora={"rank": 3, "alpha": 6, "targets": ["*.attention.*", "*.ffn.*"]})";
// The head, the embedding, which may be one with it, and whole matrices of which some belong to one product.
const std::string saved_modules =
    R"(model.lora={"rank": 3, "targets": ["*.attention.output.*"],
                   "modules_to_save": ["lm_head", "embed_tokens", "*.ffn.*", "norm"]})";
const std::string saved_tied =
    R"(model.lora={"rank": 3, "targets": ["*.attention.*"], "modules_to_save": ["embed_tokens", "*.ffn.down"]})";
const std::string dropped_inputs =
    R"(model.lora={"rank": 3, "alpha": 6, "dropout": 0.3, "targets": ["*.attention.*", "*.ffn.*"]})";
const std::string magnitudes =
    R"(model.lora={"rank": 3, "alpha": 6, "dora": true, "targets": ["*.attention.*", "*.ffn.*"]})";
const std::string some_magnitudes =
    R"(model.lora={"rank": 3, "dora": true, "dropout": 0.3, "targets": ["*.key.weight", "*.down.weight"]})";
// Query, key and value are joined in one product: only the one in the middle is adapted.
const std::string some_matrices = R"(model.lora={"rank": 4, "targets": ["*.key.weight", "layers.1.*.up.weight"]})";
const Overrides adapted_llama{"model.layers=4", "batch.micro=1", "training.learning_rate.peak=0.01"};
const Overrides adapted_gpt2 =
    adapted_llama + Overrides{"model.architecture=gpt2", "model.kv_heads=4", "model.ffn_hidden_size=64"};

}  // namespace

TEST_CASE("adapters learn the same on every layout", "[ranks]") {
  const TrainingSetting setting;
  const std::vector<RankCase> cases{
      {2, {zero(2), "pipeline.loops=2"}},
      {2, {zero(3), "pipeline.loops=4", "memory.recompute=\"full\""}},
      {2, {"parallel.tensor=2"}},
      {4, {"parallel.tensor=4", "memory.recompute=\"selective\""}},
      {2, {"parallel.tensor=2", "parallel.sequence=false"}},
      {2, {"parallel.context=2"}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
      {8, {"parallel.tensor=2", "parallel.pipeline=2", zero(1), "pipeline.loops=2"}},
  };
  const auto check = [&](const Overrides& model, const std::vector<RankCase>& layouts) {
    const Run expected = setting.train(model);
    for (const RankCase& each : layouts) {
      INFO(in_words(each.ranks, model + each.overrides));
      check_close(train_ranks(setting, each.ranks, model + each.overrides, 6), expected, 1e-5, 1e-4);
    }
  };
  check(adapted_llama + Overrides{all_matrices}, cases);
  // Masks, too, are those of one rank, whichever rows and features a rank has.
  check(adapted_llama + Overrides{dropped_inputs}, cases);
  check(adapted_llama + Overrides{some_matrices}, {cases[2], cases[3]});
  check(adapted_llama + Overrides{saved_modules}, {cases[1], cases[2], cases[6]});
  check(adapted_gpt2 + Overrides{saved_tied}, {cases[1], cases[7]});
  check(adapted_llama + Overrides{magnitudes}, {cases[1], cases[3], cases[5]});
  check(adapted_llama + Overrides{some_magnitudes},
        {cases[0], cases[2], {2, {"parallel.tensor=2", "memory.recompute=\"computation\""}}});
  check(adapted_gpt2 + Overrides{magnitudes}, {cases[4], cases[7]});
  check(adapted_gpt2 + Overrides{all_matrices}, {cases[4], cases[7]});
}

TEST_CASE("adapters drop in training, and alone", "[trainer]") {
  const TrainingSetting setting;
  LoneTrainer plain(setting.recipe(adapted_llama + Overrides{all_matrices}));
  LoneTrainer dropping(setting.recipe(adapted_llama + Overrides{dropped_inputs}));
  // B begins with zeros, so that the first step has the same loss, and another gradient.
  const StepResult expected = plain.step(), first = dropping.step();
  CHECK(first.loss == expected.loss);
  CHECK(first.gradient_norm != Approx(expected.gradient_norm).epsilon(1e-3));
  CHECK(dropping.step().loss != plain.step().loss);
  // Evaluated with one's weights the other has the same loss.
  const NamedWeightSource weights(named_weights(dropping.model()));
  load_weights(plain.model(), weights);
  CHECK(plain.evaluate() == dropping.evaluate());
}

TEST_CASE("adapters begin without effect, and merged they are the model that was trained", "[trainer]") {
  const TrainingSetting setting;
  const Overrides model = GENERATE(adapted_llama + Overrides{some_matrices}, adapted_gpt2 + Overrides{all_matrices},
                                   adapted_gpt2 + Overrides{magnitudes});
  Recipe plain = setting.recipe(model);
  plain.model = without_adapters(plain.model);
  LoneTrainer adapted(setting.recipe(model)), without(plain);
  CHECK(adapted.evaluate() == without.evaluate());
  TrainingSetting::train(adapted, 4);
  const double learned = adapted.evaluate();
  CHECK(learned != Approx(without.evaluate()).epsilon(1e-5));
  const NamedWeightSource weights(named_weights(adapted.model()));
  load_weights(without.model(), MergedWeights(adapted.model().graph(), weights));
  CHECK(without.evaluate() == Approx(learned).epsilon(1e-6));
}

TEST_CASE("a run with adapters resumes, and begins from weights without them", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model = adapted_llama + Overrides{all_matrices};
  const Run whole = setting.train(model, 4);
  const auto folder = setting.directory().path() / "checkpoints";
  LocalWorld(2).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(setting.recipe(model + Overrides{"parallel.tensor=2"}), 2), communicator, at::kCPU);
    TrainingSetting::train(trainer, 2);
    test::save(trainer, folder);
  });
  LoneTrainer resumed(setting.recipe(model));
  resumed.resume(CheckpointReader(folder / "step-00000002"));
  const Run rest = TrainingSetting::train(resumed, 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(rest.losses[i] == Approx(whole.losses[i + 2]).epsilon(1e-5));

  const auto plain = setting.directory().path() / "plain";
  LoneTrainer first(setting.recipe(adapted_llama));
  TrainingSetting::train(first, 2);
  test::save(first, plain);
  const std::string from = "training.init_from=\"" + (plain / "step-00000002").string() + "\"";
  LoneTrainer begun(setting.recipe(model + Overrides{from}));
  CHECK(begun.evaluate() == first.evaluate());
  // The other way adapters would be lost.
  const std::string adapted = "training.init_from=\"" + (folder / "step-00000002").string() + "\"";
  CHECK_THROWS_WITH(LoneTrainer(setting.recipe(adapted_llama + Overrides{adapted})), Catch::Contains("/model/lora"));
}

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
// Layers that drop tokens, on any layout and after a resume; tests/oracle compares what they learn with PyTorch.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/graph/replayed_routing.h"
#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

constexpr int dropping_steps = 6;

const Overrides dropping{"model.layers=4", "batch.micro=2",
                         R"(training.token_dropping={"start": 8, "steps": 5, "multiple": 4})",
                         R"(training.learning_rate.clock="tokens")"};
const std::string whole_rows = "parallel.sequence=false";

}  // namespace

TEST_CASE("what layers learn that drop tokens does not depend on the layout", "[ranks]") {
  const TrainingSetting setting;
  const std::vector<RankCase> cases{
      {2, {"parallel.tensor=2", whole_rows}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\"", "memory.recompute=\"full\""}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"gpipe\"", "memory.recompute=\"selective\""}},
      {4, {zero(3), "pipeline.loops=4", "batch.micro=1"}},
      {8, {"parallel.tensor=2", "parallel.pipeline=2", whole_rows, zero(2), "pipeline.loops=2"}},
  };
  const std::vector<Overrides> models{
      {},
      {"model.architecture=gpt2", "model.dropout=0.1"},
      {R"(data.curriculum.sequence_length={"start": 12, "steps": 4, "multiple": 4, "method": "reshape"})"}};
  for (const Overrides& model : models) {
    const Run expected = setting.train(dropping + model, dropping_steps);
    for (const RankCase& each : cases) {
      const bool is_reshaped = !model.empty() && model.front().starts_with("data.");
      // A micro-batch's sequences are made of its samples.
      if (is_reshaped && each.overrides.back() == "batch.micro=1") continue;
      INFO(in_words(each.ranks, model + each.overrides));
      check_close(train_ranks(setting, each.ranks, dropping + model + each.overrides, dropping_steps), expected, 1e-5,
                  1e-4);
    }
  }
}

TEST_CASE("experts that drop tokens learn on many ranks what they learn on one", "[ranks]") {
  const TrainingSetting setting;
  const Overrides all =
      dropping + Overrides{R"(model.moe={"experts": 4, "top_k": 2, "ffn_hidden_size": 24, "z_coefficient": 0.01})"};
  const Run expected = setting.train(all, dropping_steps);
  check_close(train_ranks(setting, 2, all + Overrides{"parallel.expert=2", zero(3)}, dropping_steps), expected, 1e-5,
              1e-4);
  check_close(train_ranks(setting, 2, all + Overrides{"parallel.tensor=2", whole_rows}, dropping_steps), expected, 1e-5,
              1e-4);
}

TEST_CASE("tokens that layers keep replay a routing to a token, and those of other layers likewise", "[ranks]") {
  const TrainingSetting setting;
  const Overrides all =
      dropping + Overrides{"log.routing=true", "batch.micro=1",
                           R"(model.moe={"experts": 4, "top_k": 2, "ffn_hidden_size": 24, "routing_zipf": 1})"};
  const ExpertShares shares = shares_by_weight(std::vector<double>{1, 1.0 / 2, 1.0 / 3, 1.0 / 4}, 2);
  // The first step's sequences have 24 tokens, of which the middle layers see 8.
  const auto counted = [&](std::int64_t tokens) {
    const auto counts = counts_by_share(shares, tokens, 2);
    return std::vector<double>(counts.begin(), counts.end());
  };
  const RoutingCounts expected{counted(8 * 24), counted(8 * 8), counted(8 * 8), counted(8 * 24)};
  for (const RankCase& each :
       {RankCase{1, {}}, RankCase{2, {"parallel.expert=2"}}, RankCase{2, {"parallel.tensor=2", whole_rows}}}) {
    INFO(in_words(each.ranks, each.overrides));
    const Recipe recipe = setting.recipe(all + each.overrides);
    std::vector<RoutingCounts> chosen(static_cast<std::size_t>(each.ranks));
    LocalWorld(each.ranks).run([&](Communicator& communicator) {
      Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
      chosen[static_cast<std::size_t>(communicator.rank())] = trainer.step().chosen;
    });
    for (const RoutingCounts& of_rank : chosen) CHECK(of_rank == expected);
  }
}

// Recompute runs the layer again with the same tokens; all tokens kept is the layer itself.
TEST_CASE("recompute repeats what was kept, and layers that keep all tokens are as without dropping", "[trainer]") {
  const TrainingSetting setting;
  const Run expected = setting.train(dropping, dropping_steps);
  check_equal(setting.train(dropping + Overrides{"memory.recompute=\"full\""}, dropping_steps), expected);
  const Overrides plain{"model.layers=4", "batch.micro=2"};
  const Overrides all_kept = plain + Overrides{R"(training.token_dropping={"start": 24, "steps": 5, "multiple": 4})"};
  check_equal(setting.train(all_kept, 3), setting.train(plain, 3));
  CHECK(expected.losses[0] != setting.train(plain, 1).losses[0]);
}

TEST_CASE("a resumed run keeps the tokens that it would have kept", "[trainer]") {
  const TrainingSetting setting;
  const Recipe recipe = setting.recipe(dropping);
  const Run whole = setting.train(dropping, dropping_steps);
  const auto resumed = resumed_after(3, recipe, setting.directory().path() / "checkpoints");
  CHECK(TrainingSetting::train(*resumed, dropping_steps - 3).losses ==
        std::vector<double>(whole.losses.begin() + 3, whole.losses.end()));
  CHECK(resumed->tokens_trained() == dropping_steps * 8 * 24);
}

TEST_CASE("evaluation drops nothing", "[trainer]") {
  const TrainingSetting setting;
  const Overrides plain{"model.layers=4", "batch.micro=2"};
  LoneTrainer with(setting.recipe(dropping)), without(setting.recipe(plain));
  CHECK(with.evaluate() == without.evaluate());
}

}  // namespace llmtrain::test

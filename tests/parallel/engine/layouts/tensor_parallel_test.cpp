// SPDX-License-Identifier: Apache-2.0
// Tensor and sequence parallel ranks learn what one rank learns.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "parallel/engine/inference.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "tests/parallel/engine/train_ranks.h"
#include "tests/support/source_folder.h"

namespace llmtrain::test {
namespace {

constexpr std::int64_t steps = 6;

const Overrides gpt2{"model.architecture=\"gpt2\"", "model.kv_heads=4", "model.vocab_size=257"};
const Overrides llama{"model.qk_norm=true"};  // 2 heads of keys and values
const Overrides biased{"model.bias=true", "model.qkv_bias=true", "model.tie_embeddings=true"};

Overrides tensor(int ranks, bool sequence) {
  return {"parallel.tensor=" + std::to_string(ranks),
          std::string("parallel.sequence=").append(sequence ? "true" : "false")};
}

// Both degrees with and without sequence parallelism, alone and with data ranks at the ZeRO stages; recompute, loops
// and micro-batches vary.
std::vector<RankCase> layouts() {
  const std::vector<Overrides> cuts{
      {"batch.micro=4"},
      {"batch.micro=4", "memory.recompute=\"selective\""},
      {"batch.micro=2", "memory.recompute=\"full\""},
      {"batch.micro=2", "pipeline.loops=3"},
      {"batch.micro=1", "pipeline.loops=3", "pipeline.schedule=\"interleaved\"", "memory.recompute=\"full\""},
  };
  std::vector<RankCase> layouts;
  std::size_t next = 0;
  for (const int ranks : {2, 4}) {
    for (const bool sequence : {false, true}) {
      layouts.push_back({ranks, cuts[next++ % cuts.size()] + tensor(ranks, sequence)});
      for (int stage = ranks == 2 ? 0 : 2; stage <= 3; ++stage)
        layouts.push_back({2 * ranks, cuts[next++ % cuts.size()] + tensor(ranks, sequence) + Overrides{zero(stage)}});
    }
  }
  return layouts;
}

}  // namespace

TEST_CASE("with any number of tensor ranks the model learns what one rank learns", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model =
      GENERATE(Overrides(gpt2), gpt2 + Overrides{"model.dropout=0.1"}, Overrides(llama), llama + biased);
  const Run expected = setting.train(model, steps);
  for (const RankCase& layout : layouts()) {
    INFO(in_words(layout.ranks, layout.overrides));
    check_close(train_ranks(setting, layout.ranks, model + layout.overrides, steps), expected, 1e-5, 1e-4);
  }
}

TEST_CASE("runs on tensor ranks are bitwise reproducible, also with recompute", "[ranks]") {
  const TrainingSetting setting;
  const Overrides compute = GENERATE(Overrides{}, Overrides{"precision.compute=\"bf16\""});
  const bool sequence = GENERATE(false, true);
  const Overrides layout = gpt2 + compute + tensor(2, sequence) + Overrides{"batch.micro=2", "model.dropout=0.1"};
  const Run expected = train_ranks(setting, 4, layout, 4);
  check_equal(train_ranks(setting, 4, layout, 4), expected);
  for (const std::string kept : {"selective", "full"})
    check_equal(train_ranks(setting, 4, layout + Overrides{"memory.recompute=\"" + kept + "\""}, 4), expected);
}

TEST_CASE("sharding inside a group, replication across groups, on tensor ranks", "[ranks]") {
  const TrainingSetting setting;
  const Run expected = setting.train(llama, steps);
  for (const int stage : {0, 1, 3}) {
    INFO("ZeRO-" << stage);
    const Overrides layout =
        tensor(2, true) + Overrides{"batch.micro=1", zero(stage), "parallel.zero_shard_ranks=2", "pipeline.loops=3"};
    check_close(train_ranks(setting, 8, llama + layout, steps), expected, 1e-5, 1e-4);
  }
}

TEST_CASE("a tensor rank may hold no row of the vocabulary", "[ranks]") {
  const TrainingSetting setting;
  // 9 rows on each of 32 ranks: 257 end on the 29th.
  const Overrides model =
      gpt2 + Overrides{"model.layers=1",           "model.hidden_size=64",     "model.heads=32", "model.kv_heads=4",
                       "model.ffn_hidden_size=64", "batch.sequence_length=16", "batch.global=2", "batch.micro=2"};
  const Run expected = setting.train(model, 3);
  check_close(train_ranks(setting, 32, model + tensor(32, false), 3), expected, 1e-5, 1e-4);
}

TEST_CASE("bf16 on tensor ranks stays close to fp32", "[ranks]") {
  const TrainingSetting setting;
  const Run expected = setting.train(llama, 6);
  const Overrides types = GENERATE(Overrides{"precision.compute=\"bf16\""},
                                   Overrides{"precision.compute=\"bf16\"", "precision.gradients=\"bf16\""});
  check_close(train_ranks(setting, 4, llama + types + tensor(4, true), 6), expected, 2e-2, 0.1);
}

TEST_CASE("tensor ranks share an evaluation and compute the same logits", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model =
      GENERATE(Overrides(gpt2), Overrides(llama)) + Overrides{"training.evaluate_batches=0", "batch.micro=2"};
  LoneTrainer alone(setting.recipe(model));
  const double loss = alone.evaluate();
  const at::Tensor tokens = at::arange(60, 71);  // 11, which no degree divides
  const at::Tensor logits = logits_of(alone.model(), tokens);
  for (const bool sequence : {false, true}) {
    const Recipe recipe = setting.recipe(model + tensor(2, sequence));
    std::vector<double> losses(4), errors(4);
    LocalWorld(4).run([&](Communicator& communicator) {
      Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
      const auto rank = static_cast<std::size_t>(communicator.rank());
      losses[rank] = trainer.evaluate();
      errors[rank] = (logits_of(trainer.model(), tokens) - logits).abs().max().item<double>();
    });
    for (const double value : losses) CHECK(value == Approx(loss).epsilon(1e-6));
    for (const double error : errors) CHECK(error < 1e-5);
  }
}

TEST_CASE("a step on tensor ranks sends the planned bytes", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model = GENERATE(gpt2 + Overrides{"batch.micro=2"}, llama + Overrides{"batch.micro=4"});
  const bool sequence = GENERATE(false, true);
  const std::string recompute = GENERATE("none", "full");
  const int stage = GENERATE(0, 1, 3);
  const Recipe recipe = setting.recipe(
      model + tensor(4, sequence) +
      Overrides{zero(stage), "memory.recompute=\"" + recompute + "\"", "pipeline.loops=3", "launch.ranks=8"});
  const auto profile = load_profile("cpu", source_folder() / "recipes/clusters");
  double planned = 0;
  for (const CommunicationEntry& entry : make_plan(recipe, profile, Timeline::leave_out).report.communication)
    if (entry.purpose == Purpose::data_parallel || entry.purpose == Purpose::tensor_parallel)
      planned += entry.bytes_per_rank_per_step;

  std::vector<double> sent(8);
  LocalWorld(8).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    communicator.log().reset_counts();
    trainer.step();
    for (const CommunicationCount& count : communicator.log().counts())
      if (count.purpose != Purpose::control) sent[static_cast<std::size_t>(communicator.rank())] += count.bytes;
  });
  CHECK(*std::max_element(sent.begin(), sent.end()) == planned);
}

TEST_CASE("padding of the vocabulary stays zero", "[ranks]") {
  const TrainingSetting setting;
  const Recipe recipe = setting.recipe(gpt2 + tensor(4, true) + Overrides{"training.learning_rate.peak=0.1"});
  LocalWorld(4).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    TrainingSetting::train(trainer, 3);
    if (communicator.rank() != 3) return;  // 65 rows on each, and on the last 62 real ones
    const ParameterUnit& stage = *trainer.model().units().front();
    const at::Tensor embedding = stage.store->weight(stage.store->ranges().front().parameter);
    if (embedding.size(0) != 65 || embedding.narrow(0, 62, 3).any().item<bool>() ||
        !embedding.narrow(0, 0, 62).any().item<bool>())
      throw Error(ExitCode::internal_error, "the padding is not zero");
  });
}

}  // namespace llmtrain::test

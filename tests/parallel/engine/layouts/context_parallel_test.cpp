// SPDX-License-Identifier: Apache-2.0
// Context parallel ranks learn what one rank learns.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "parallel/engine/trainer.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/shard/rank_groups.h"
#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"
#include "tests/support/source_folder.h"

namespace llmtrain::test {
namespace {

struct ContextCase {
  int context;
  int others;  // data × pipeline × tensor
  Overrides overrides;

  int ranks() const { return context * others; }
  Overrides all() const {
    return Overrides{"parallel.context=" + std::to_string(context), "batch.micro=2"} + overrides;
  }
  RankCase as_rank_case() const { return {ranks(), all()}; }
};

std::vector<ContextCase> layouts() {
  std::vector<ContextCase> layouts{
      {2, 1, {}},
      {4, 1, {"memory.recompute=\"selective\""}},
      {4, 1, {"memory.recompute=\"full\"", "pipeline.loops=3"}},
      {2, 1, {"kernels.attention=\"math\"", "memory.recompute=\"selective\""}},
      {3, 1, {"kernels.attention=\"math\""}},
      {2, 2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\"", "pipeline.balance=[1,2]"}},
      {2, 2, {"parallel.pipeline=2", "pipeline.schedule=\"breadth_first\"", "pipeline.balance=[2,1]", zero(3)}},
      {2, 4, {"batch.micro=1", "parallel.zero_shard_ranks=2", zero(2)}},
  };
  for (int stage = 0; stage <= 3; ++stage) {
    layouts.push_back({2, 2, {zero(stage), "pipeline.loops=3", "pipeline.schedule=\"breadth_first\""}});
    layouts.push_back({4, stage % 2 == 0 ? 1 : 2, {zero(stage), "memory.recompute=\"full\""}});
  }
  return layouts;
}

std::vector<Overrides> models() {
  return {{},
          {"model.architecture=\"gpt2\"", "model.dropout=0.1", "model.kv_heads=4"},
          // With four ranks the two chunks of a rank differ in size.
          {"model.qk_norm=true", "model.tie_embeddings=true", "batch.sequence_length=12", "model.kv_heads=1"},
          {"model.sliding_window={\"tokens\":5,\"global_every\":2}", "model.attention_sinks=true",
           "model.parallel_residual=\"two_norms\"", "model.embedding_scale=3"}};
}

}  // namespace

TEST_CASE("every token is on one rank, and every rank has the same work") {
  const int ranks = GENERATE(1, 2, 3, 4, 8);
  const std::int64_t length = ranks * GENERATE(1, 2, 5, 16);
  std::vector<int> owners(static_cast<std::size_t>(length), 0);
  std::vector<std::int64_t> work;
  for (int position = 0; position < ranks; ++position) {
    const auto part = context_part(length, position, ranks);
    work.push_back(0);
    for (const auto& [begin, count] : part.runs_of(length / ranks)) {
      for (std::int64_t i = begin; i < begin + count; ++i) {
        ++owners[static_cast<std::size_t>(i)];
        work.back() += i + 1;  // keys that it attends to
      }
    }
  }
  for (const int owner : owners) CHECK(owner == 1);
  const std::int64_t all = length * (length + 1) / 2;
  CHECK(std::accumulate(work.begin(), work.end(), std::int64_t{0}) == all);
  // Chunks that differ by one token differ by that token's keys.
  const std::int64_t uneven = length % (2 * ranks) == 0 ? 0 : length;
  for (const std::int64_t mine : work) CHECK(std::abs(mine * ranks - all) <= uneven * ranks);
}

TEST_CASE("keys are gathered in order, and gradients are returned to their ranks", "[ranks]") {
  const int ranks = GENERATE(2, 3, 4);
  const std::int64_t length = ranks * GENERATE(1, 4, 5), batch = 2, heads = 2, width = 3;
  const at::Tensor key = at::arange(batch * length * heads * width, at::kFloat).view({batch, length, heads, width});
  const at::Tensor value = key * -2;
  const auto cut = [&](const at::Tensor& x, const kernels::SequencePart& part) {
    return kernels::rows_at(x.transpose(0, 1), part, length / ranks).transpose(0, 1);
  };
  const auto layout = layout_of(TrainingSetting().recipe({"parallel.context=" + std::to_string(ranks)}), ranks);
  std::mutex mutex;
  LocalWorld(ranks).run([&](Communicator& communicator) {
    const ContextParallel context(communicator, *layout);
    const auto part = context.part(length);
    const KeysAndValues all = context.gather({cut(key, part), cut(value, part)});
    const KeysAndValues own{at::zeros({batch, length / ranks, heads, width}),
                            at::zeros({batch, length / ranks, heads, width})};
    // On rank r: r + 1 times the keys, so that the sum is a known multiple.
    context.scatter_sum({key * (communicator.rank() + 1), value * (communicator.rank() + 1)}, own);
    const std::lock_guard lock(mutex);
    CHECK(at::equal(all.key, key));
    CHECK(at::equal(all.value, value));
    const int sum = ranks * (ranks + 1) / 2;
    CHECK(at::equal(own.key, cut(key, part) * sum));
    CHECK(at::equal(own.value, cut(value, part) * sum));
  });
}

TEST_CASE("ranks that share sequences learn what one rank learns", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model = GENERATE(from_range(models()));
  const Run expected = setting.train(model, 12);
  for (const ContextCase& layout : layouts()) {
    INFO(in_words(layout.ranks(), model + layout.all()));
    check_close(train_ranks(setting, layout.ranks(), model + layout.all(), 12), expected, 1e-5, 1e-4);
  }
}

// Every dropout mask, position and gradient of a rank that has part of the tokens and of the features, or part of the
// tokens of its context part.
TEST_CASE("context, tensor and pipeline ranks together learn what one rank learns", "[ranks]") {
  const TrainingSetting setting;
  const std::string layers = "model.layers=4", split = "parallel.sequence=true", tensor = "parallel.tensor=2";
  const Overrides model = GENERATE_COPY(Overrides{layers, "model.vocab_size=259", "model.qk_norm=true"},
                                        Overrides{layers, "model.architecture=\"gpt2\"", "model.dropout=0.1",
                                                  "model.kv_heads=4", "model.vocab_size=257"});
  const Run expected = setting.train(model, 12);
  const std::vector<ContextCase> mixes{
      {2, 2, {tensor}},
      {2, 2, {tensor, split, "memory.recompute=\"full\""}},
      {2, 4, {tensor, split, zero(3), "pipeline.loops=2", "pipeline.schedule=\"breadth_first\""}},
      {2, 4, {tensor, split, zero(2), "parallel.pipeline=2", "pipeline.loops=2", "memory.recompute=\"selective\""}},
      {2, 4, {"parallel.tensor=4", split}},
      {4, 2, {tensor, "kernels.attention=\"math\"", zero(1)}},
  };
  for (const ContextCase& layout : mixes) {
    INFO(in_words(layout.ranks(), model + layout.all()));
    check_close(train_ranks(setting, layout.ranks(), model + layout.all(), 12), expected, 1e-5, 1e-4);
  }
}

TEST_CASE("context parallel runs are bitwise reproducible, also across ZeRO stages", "[ranks]") {
  const TrainingSetting setting;
  const Overrides compute = GENERATE(Overrides{}, Overrides{"precision.compute=\"bf16\""});
  // Reduces each stage once per step at every ZeRO stage.
  const ContextCase breadth_first{2, 2, {"pipeline.loops=3", "pipeline.schedule=\"breadth_first\""}};
  const Overrides layout = breadth_first.all() + compute;
  const Run expected = train_ranks(setting, 4, layout, 6);
  check_equal(train_ranks(setting, 4, layout, 6), expected);
  for (int stage = 1; stage <= 3; ++stage)
    check_equal(train_ranks(setting, 4, layout + Overrides{zero(stage)}, 6), expected);
}

TEST_CASE("context parallel bf16 stays close to fp32", "[ranks]") {
  const TrainingSetting setting;
  const Run expected = setting.train({}, 6);
  const ContextCase layout = GENERATE(ContextCase{2, 1, {}}, ContextCase{4, 1, {"kernels.attention=\"math\""}});
  check_close(train_ranks(setting, layout.ranks(), layout.all() + Overrides{"precision.compute=\"bf16\""}, 6), expected,
              2e-2, 0.1);
}

TEST_CASE("ranks that share sequences evaluate what one rank evaluates", "[ranks]") {
  const ContextCase layout =
      GENERATE(ContextCase{2, 1, {}}, ContextCase{2, 2, {zero(3), "pipeline.loops=3"}}, ContextCase{4, 2, {}});
  check_evaluation(TrainingSetting(), {"model.dropout=0.1"}, layout.as_rank_case());
}

TEST_CASE("a checkpoint of context parallel ranks can be resumed in any layout", "[ranks]") {
  check_resumption(TrainingSetting(), {}, ContextCase{2, 2, {zero(3), "pipeline.loops=3"}}.as_rank_case(),
                   {{1, {}}, ContextCase{4, 1, {}}.as_rank_case()});
}

TEST_CASE("a step exchanges the planned keys, values and gradients", "[ranks]") {
  const TrainingSetting setting;
  const std::string recompute = GENERATE("none", "selective", "full"), precision = GENERATE("fp32", "bf16");
  const ContextCase layout = GENERATE(ContextCase{2, 2, {}}, ContextCase{4, 1, {}});
  const Recipe recipe = setting.recipe(layout.all() + Overrides{"memory.recompute=\"" + recompute + "\"",
                                                                "precision.compute=\"" + precision + "\"",
                                                                "launch.ranks=" + std::to_string(layout.ranks())});
  const auto profile = load_profile("cpu", source_folder() / "recipes/clusters");
  const Plan plan = make_plan(recipe, profile, Timeline::leave_out);
  const auto planned = [&](Collective collective) {
    double bytes = 0;
    for (const CommunicationEntry& entry : plan.report.communication)
      if (entry.purpose == Purpose::context && entry.collective == collective) bytes += entry.bytes_per_rank_per_step;
    return bytes;
  };
  std::mutex mutex;
  LocalWorld(layout.ranks()).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    communicator.log().reset_counts();
    trainer.step();
    const std::lock_guard lock(mutex);
    int kinds = 0;
    for (const CommunicationCount& count : communicator.log().counts()) {
      if (count.purpose != Purpose::context) continue;
      ++kinds;
      CHECK(count.bytes == planned(count.collective));
    }
    CHECK(kinds == 2);
  });
}

}  // namespace llmtrain::test

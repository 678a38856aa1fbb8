// SPDX-License-Identifier: Apache-2.0
// Ranks that hold stages of the model learn what one rank learns.
#include <catch2/catch.hpp>
#include <mutex>
#include <string>
#include <vector>

#include "parallel/engine/trainer.h"
#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

struct PipelineCase {
  int pipeline;
  int data;
  Overrides overrides;

  int ranks() const { return pipeline * data; }
  Overrides all() const {
    return Overrides{"parallel.pipeline=" + std::to_string(pipeline), "batch.micro=1"} + overrides;
  }
  RankCase as_rank_case() const { return {ranks(), all()}; }
};

// Every schedule, on models of six layers.
std::vector<PipelineCase> schedules() {
  return {
      {2, 1, {"pipeline.schedule=\"gpipe\""}},
      {2, 1, {"pipeline.schedule=\"1f1b\"", "memory.recompute=\"selective\""}},
      {3, 1, {"pipeline.schedule=\"1f1b\"", "memory.recompute=\"full\""}},
      {4, 1, {"pipeline.schedule=\"1f1b\"", "pipeline.balance=[1,2,2,1]"}},
      {2, 1, {"pipeline.schedule=\"breadth_first\"", "pipeline.loops=3"}},
      {3, 1, {"pipeline.schedule=\"breadth_first\"", "pipeline.loops=2", "parallel.overlap=false"}},
      {2, 1, {"pipeline.schedule=\"interleaved\"", "pipeline.loops=3"}},
      {4, 1, {"pipeline.schedule=\"breadth_first\"", "pipeline.loops=2", "pipeline.balance=\"blocks\""}},
      {8, 1, {"pipeline.schedule=\"1f1b\"", "pipeline.balance=\"blocks\""}},
  };
}

// With every ZeRO stage.
std::vector<PipelineCase> sharded() {
  std::vector<PipelineCase> layouts;
  for (int stage = 0; stage <= 3; ++stage) {
    layouts.push_back({2, 2, {zero(stage), "pipeline.schedule=\"1f1b\""}});
    layouts.push_back({2, 2, {zero(stage), "pipeline.schedule=\"breadth_first\"", "pipeline.loops=3"}});
    layouts.push_back({2, 2, {zero(stage), "pipeline.schedule=\"interleaved\"", "pipeline.loops=3"}});
  }
  layouts.push_back({2, 4, {zero(3), "pipeline.schedule=\"breadth_first\"", "parallel.zero_shard_ranks=2"}});
  return layouts;
}

std::vector<Overrides> models() {
  const std::string layers = "model.layers=6";
  return {{layers},
          {layers, "model.architecture=\"gpt2\"", "model.dropout=0.1"},
          {layers, "model.tie_embeddings=true", "model.vocab_size=257"}};
}

}  // namespace

TEST_CASE("stages on several ranks learn what one rank learns", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model = GENERATE(from_range(models()));
  const Run expected = setting.train(model, 12);
  auto layouts = schedules();
  for (const PipelineCase& layout : sharded()) layouts.push_back(layout);
  for (const PipelineCase& layout : layouts) {
    INFO(in_words(layout.ranks(), layout.all()));
    check_close(train_ranks(setting, layout.ranks(), model + layout.all(), 12), expected, 1e-5, 1e-4);
  }
}

TEST_CASE("so do stages of different numbers of layers", "[ranks]") {
  const TrainingSetting setting;
  const auto check = [&](const std::string& layers, const std::vector<PipelineCase>& layouts) {
    const Overrides model{layers, "model.tie_embeddings=true"};
    const Run expected = setting.train(model, 12);
    for (const PipelineCase& layout : layouts) {
      INFO(in_words(layout.ranks(), layout.all()));
      check_close(train_ranks(setting, layout.ranks(), model + layout.all(), 12), expected, 1e-5, 1e-4);
    }
  };
  check("model.layers=5", {{2, 1, {"pipeline.schedule=\"1f1b\""}},
                           {4, 1, {"pipeline.schedule=\"gpipe\"", "pipeline.balance=\"blocks\""}},
                           {2, 2, {zero(2)}}});
  check("model.layers=7", {{2, 2, {zero(3), "pipeline.loops=2"}},
                           {2, 2, {zero(1), "pipeline.loops=2", "pipeline.schedule=\"interleaved\""}},
                           {1, 4, {zero(3), "pipeline.loops=3"}}});
}

TEST_CASE("a pipeline is bitwise reproducible, also across ZeRO stages", "[ranks]") {
  const TrainingSetting setting;
  const Overrides compute = GENERATE(Overrides{}, Overrides{"precision.compute=\"bf16\""});
  const Overrides model = Overrides{"model.layers=6", "model.tie_embeddings=true"} + compute;
  const PipelineCase layout{2, 2, {"pipeline.schedule=\"breadth_first\"", "pipeline.loops=3"}};
  const Run expected = train_ranks(setting, 4, model + layout.all(), 6);
  check_equal(train_ranks(setting, 4, model + layout.all(), 6), expected);
  for (int stage = 1; stage <= 3; ++stage)
    check_equal(train_ranks(setting, 4, model + layout.all() + Overrides{zero(stage)}, 6), expected);
}

TEST_CASE("the tied embedding stays the same at both ends of a pipeline", "[ranks]") {
  const TrainingSetting setting;
  const int stage = GENERATE(0, 2, 3);
  const Recipe recipe = setting.recipe(Overrides{"model.layers=6", "model.tie_embeddings=true"} +
                                       PipelineCase{2, 2, {zero(stage), "pipeline.loops=3"}}.all());
  std::mutex mutex;
  std::vector<at::Tensor> shards(4);
  LocalWorld(4).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    TrainingSetting::train(trainer, 3);
    const std::lock_guard lock(mutex);
    for (const ParameterUnit* unit : trainer.model().units())
      if (unit->is_shared) shards[static_cast<std::size_t>(communicator.rank())] = unit->parameters->source().clone();
  });
  REQUIRE(shards[0].defined());
  CHECK(shards[0].equal(shards[2]));
  CHECK(shards[1].equal(shards[3]));
}

TEST_CASE("a pipeline evaluates what one rank evaluates", "[ranks]") {
  const PipelineCase layout =
      GENERATE(PipelineCase{2, 1, {"pipeline.loops=3"}}, PipelineCase{2, 4, {zero(3)}}, PipelineCase{3, 1, {}});
  check_evaluation(TrainingSetting(), {"model.layers=6", "model.tie_embeddings=true"}, layout.as_rank_case());
}

TEST_CASE("pipelines resume from each other's checkpoints", "[ranks]") {
  const Overrides model = GENERATE(from_range(models()));
  const PipelineCase saved{2, 2, {zero(3), "pipeline.loops=3"}};
  const PipelineCase longer{3, 1, {"pipeline.schedule=\"1f1b\""}}, unsplit{1, 2, {zero(2)}};
  const PipelineCase uneven{4, 1, {}};  // two of them with a layer more
  check_resumption(TrainingSetting(), model, saved.as_rank_case(),
                   {{1, {}}, longer.as_rank_case(), unsplit.as_rank_case(), uneven.as_rank_case()});
}

TEST_CASE("each rank of a pipeline executes its part of the schedule", "[ranks]") {
  const TrainingSetting setting;
  const std::string schedule = GENERATE("breadth_first", "interleaved");
  const Recipe recipe =
      setting.recipe(Overrides{"model.layers=6"} +
                     PipelineCase{2, 2, {zero(3), "pipeline.loops=3", "pipeline.schedule=\"" + schedule + "\""}}.all());
  Mesh mesh;
  mesh.pipeline = mesh.data = mesh.zero_shard = 2;
  const Schedule expected = make_schedule(Partition::on_mesh(recipe, mesh).shape);
  std::mutex mutex;
  LocalWorld(4).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    std::string executed;
    trainer.runner().set_observer([&](const Instruction& instruction) { executed += to_text(instruction) + "\n"; });
    trainer.step();
    const std::lock_guard lock(mutex);
    CHECK(executed == to_text(expected.ranks[static_cast<std::size_t>(communicator.rank() / 2)]));
  });
}

// Lamy-Poirier, arXiv 2211.05953, section 4: the purpose of breadth first.
TEST_CASE("breadth first gathers a stage twice per step and reduces it once, depth first once per turn", "[ranks]") {
  const TrainingSetting setting;
  const std::string schedule = GENERATE("breadth_first", "interleaved");
  const Recipe recipe =
      setting.recipe(Overrides{"model.layers=6", "batch.global=16"} +
                     PipelineCase{2, 2, {zero(3), "pipeline.loops=3", "pipeline.schedule=\"" + schedule + "\""}}.all());
  std::mutex mutex;
  LocalWorld(4).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, communicator.size()), communicator, at::kCPU);
    communicator.log().reset_counts();
    trainer.step();
    const std::lock_guard lock(mutex);
    for (const CommunicationCount& count : communicator.log().counts()) {
      if (count.purpose != Purpose::data_parallel) continue;
      const bool gathers = count.collective == Collective::all_gather;
      if (schedule == "breadth_first") {
        CHECK(count.calls == 3 * (gathers ? 2 : 1));
      } else {
        CHECK(count.calls > 3 * (gathers ? 2 : 1));
      }
    }
  });
}

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
// Ranks with GPUs, emulated here, train under each policy of memory (memory.policy) to the bits of a run without one,
// and go on from its checkpoints.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/staged/staged_world.h"
#include "parallel/runtime/torch_staging.h"
#include "tests/emulator/device/runtime.h"
#include "tests/parallel/engine/save_ranks.h"

namespace llmtrain::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* bf16 = "precision.compute=\"bf16\"";
constexpr const char* unclipped = "training.clip_norm=0";
constexpr const char* experts =
    "model.moe={\"experts\": 4, \"top_k\": 2, \"ffn_hidden_size\": 32, \"capacity_factor\": 0}";

std::string fp8(const std::string& level) { return "precision.fp8_level=\"" + level + "\""; }

// So many stages of each rank stay on the device.
std::string resident(int stages) { return "memory.offload.resident_stages=" + std::to_string(stages); }

std::string policy(const std::string& name) { return "memory.policy=\"" + name + "\""; }

// The same layout and order with everything on the device.
Recipe without_policy(Recipe recipe) {
  recipe.memory.policy = OffloadPolicy::none;
  recipe.memory.offload = {};
  recipe.training.update_in_backward = false;
  return recipe;
}

struct OfRank {
  Run run;
  Saved saved;
  std::int64_t moments = 0;  // bytes on the device, between steps
};

std::vector<OfRank> train(const Recipe& recipe, int ranks, std::int64_t steps,
                          const std::function<void(Trainer&)>& before = {},
                          const std::function<void(Trainer&)>& after = {}) {
  std::vector<OfRank> of_ranks(static_cast<std::size_t>(ranks));
  LocalWorld(ranks).run([&](Communicator& communicator) {
    const at::Device gpu(at::kCUDA, 0);
    const auto staged = stage_through_host(as_it_is(communicator), make_torch_staging(gpu));
    Trainer trainer(layout_of(recipe, communicator.size()), *staged, gpu);
    if (before) before(trainer);
    OfRank& own = of_ranks[static_cast<std::size_t>(communicator.rank())];
    own.run = TrainingSetting::train(trainer, steps);
    own.saved = saved_of(trainer.model());
    for (const ParameterUnit* unit : trainer.model().units()) own.moments += unit->parameters->bytes().moments;
    if (after) after(trainer);
  });
  return of_ranks;
}

Recipe recipe_of(const TrainingSetting& setting, const RankCase& layout) {
  return setting.recipe(layout.overrides + Overrides{"cluster.device=\"cuda\"", "batch.global=4", "batch.micro=1",
                                                     "training.learning_rate.warmup_steps=0",
                                                     "launch.ranks=" + std::to_string(layout.ranks)});
}

void check_policies(const TrainingSetting& setting, const std::vector<RankCase>& layouts, std::int64_t steps = 10) {
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Recipe recipe = recipe_of(setting, layout);
    const auto expected = train(without_policy(recipe), layout.ranks, steps), got = train(recipe, layout.ranks, steps);
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
      check_equal(got[rank].run, expected[rank].run);
      CHECK((got[rank].saved == expected[rank].saved));
      CHECK(expected[rank].moments > 0);
      CHECK((got[rank].moments > 0) == (recipe.memory.offload.resident_stages > 0));
      CHECK(got[rank].moments < expected[rank].moments);
    }
  }
  CHECK(emulated::counters(0).races == 0);
}

Overrides on_disk(const TrainingSetting& setting) {
  return {"memory.offload.optimizer=\"disk\"", "memory.offload.folder=\"" + setting.directory().path().string() + "\""};
}

TEST_CASE("ranks train under a policy of memory to the bits of training without one") {
  const TrainingSetting setting;
  const Overrides pipeline{"parallel.pipeline=2", "model.layers=4", "model.tie_embeddings=true"};
  const std::string at_random = "precision.stochastic_rounding=true";
  // Some sums of two ranks are beyond the range, and their matrices leave FP8.
  const Overrides leaving{"precision.gradient_scaling=\"post\"", "precision.high_precision.fallback_steps=2"};
  check_policies(setting,
                 {{1, {policy("zero_offload"), bf16, fp8("O1"), at_random, "pipeline.schedule=\"breadth_first\""}},
                  {2, {policy("zero_offload"), zero(0)}},
                  {2, {policy("zero_offload"), zero(1), bf16, "parallel.overlap=false"}},
                  {4, {policy("zero_offload"), zero(2), "precision.compute=\"fp16\""}},
                  {4, {policy("zero_offload"), experts, "parallel.expert=2", zero(1)}},
                  {2, Overrides{policy("zero_offload"), "pipeline.loops=2"} + pipeline},
                  {2, {policy("zero_infinity"), bf16, "parallel.tensor=2"}},
                  {4, Overrides{policy("zero_infinity"), bf16, "pipeline.loops=2"} + pipeline},
                  {2, {policy("zero_infinity"), bf16, fp8("O2"), experts, "parallel.expert=2"}},
                  {1, {policy("harmony"), unclipped, experts}},
                  {2, Overrides{policy("harmony"), bf16, fp8("O3")} + leaving},
                  {2, Overrides{policy("harmony"), unclipped, bf16} + on_disk(setting)},
                  {4, Overrides{policy("harmony"), unclipped} + pipeline},
                  {2, {policy("naive_swapping"), bf16, fp8("O3")}}});
}

TEST_CASE("ranks some of whose stages stay on the device train to the bits of training without a policy") {
  const TrainingSetting setting;
  const Overrides pipeline{"parallel.pipeline=2", "model.layers=4", "model.tie_embeddings=true", "pipeline.loops=2"};
  check_policies(setting, {{1, {policy("patrickstar"), bf16, fp8("O2"), resident(1)}},
                           {1, {policy("naive_swapping"), bf16, fp8("O2"), experts, resident(1)}},
                           {2, {policy("patrickstar"), bf16, experts, "parallel.expert=2", resident(1)}},
                           {2, Overrides{policy("zero_infinity"), bf16, resident(1)} + on_disk(setting)},
                           {4, Overrides{policy("patrickstar"), bf16, resident(1)} + pipeline}});
}

// Matrices come to the GPU to be orthogonalised, and their states go back.
TEST_CASE("Muon trains under a policy of memory to the bits of training without one") {
  const TrainingSetting setting;
  const std::string muon = "training.optimizer.name=\"muon\"";
  check_policies(setting,
                 {{1, {policy("zero_offload"), muon}},
                  {2, {policy("zero_offload"), muon, zero(1), bf16, "training.optimizer.muon.nesterov=false"}},
                  {2, {policy("zero_infinity"), muon, bf16, "parallel.tensor=2"}},
                  {2, {policy("zero_infinity"), muon}},
                  {2, {policy("naive_swapping"), muon, bf16}},
                  {2, {policy("patrickstar"), muon, bf16, "memory.offload.resident_stages=1"}},
                  {2, Overrides{policy("harmony"), unclipped, muon, bf16} + on_disk(setting)}},
                 2);
}

TEST_CASE("a run under a policy goes on from its checkpoint, under it, another one or none") {
  const TrainingSetting setting;
  const auto under = [&](const std::string& name) {
    return recipe_of(setting, {2, {policy(name), unclipped, zero(3), "pipeline.schedule=\"breadth_first\""}});
  };
  const Recipe saves = under("harmony");
  const auto whole = train(saves, 2, 4);
  const std::vector<double> rest(whole[0].run.losses.begin() + 2, whole[0].run.losses.end());
  const fs::path folder = setting.directory().path() / "checkpoints";
  train(saves, 2, 2, {}, [&](Trainer& trainer) { save(trainer, folder); });
  Recipe some_stay = under("patrickstar");
  some_stay.memory.offload.resident_stages = 1;
  for (const Recipe& resumed :
       {saves, under("zero_infinity"), under("naive_swapping"), some_stay, without_policy(saves)}) {
    const auto goes_on =
        train(resumed, 2, 2, [&](Trainer& trainer) { trainer.resume(CheckpointReader(folder / "step-00000002")); });
    CHECK(goes_on[0].run.losses == rest);
    for (std::size_t rank = 0; rank < 2; ++rank) CHECK((goes_on[rank].saved == whole[rank].saved));
  }
}

}  // namespace
}  // namespace llmtrain::test

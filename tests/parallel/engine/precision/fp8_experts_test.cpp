// SPDX-License-Identifier: Apache-2.0
// FP8 weights, gradients and moments of experts that other ranks hold.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

std::string fp8_level(const char* name) { return std::string("precision.fp8_level=\"") + name + "\""; }

const Overrides expert_model{R"(model.moe={"experts": 4, "top_k": 2, "capacity_factor": 0, "ffn_hidden_size": 24})",
                             "batch.micro=2"};

const std::vector<RankCase> expert_ranks{
    {2, {"parallel.expert=2"}},
    {4, {"parallel.expert=4", zero(3), "pipeline.loops=3"}},
    {4, {"parallel.expert=2", zero(1), "parallel.expert_overlap=2"}},
    {4, {"parallel.expert=2", "parallel.tensor=2", "memory.recompute=\"full\""}},
    {4, {"parallel.expert=2", "parallel.tensor=2", "parallel.expert_tensor=1", zero(2)}},
    {4, {"parallel.expert_tensor=2", zero(3), "pipeline.loops=3"}},
};

// Steps from the start, or from a checkpoint; leaves one in `folder` unless it is empty.
std::vector<double> losses_of(const TrainingSetting& setting, const RankCase& layout, std::int64_t steps,
                              const std::filesystem::path& from, const std::filesystem::path& folder) {
  std::vector<double> losses;
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(setting.recipe(layout.overrides), communicator.size()), communicator, at::kCPU);
    if (!from.empty()) trainer.resume(CheckpointReader(from));
    const Run run = TrainingSetting::train(trainer, steps);
    if (communicator.rank() == 0) losses = run.losses;
    if (!folder.empty()) save(trainer, folder);
  });
  return losses;
}

}  // namespace

// Data ranks' own casts of the dense gradients are a noise of 3 % in every element, as without experts.
TEST_CASE("FP8 states of experts learn on any ranks what they learn on one", "[ranks]") {
  const TrainingSetting setting;
  for (const char* name : {"O1", "O2", "O3"}) {
    const Overrides common = expert_model + Overrides{fp8_level(name)};
    const Run expected = setting.train(common, 12);
    REQUIRE(expected.losses.back() < 0.99 * expected.losses.front());
    for (const RankCase& layout : expert_ranks) {
      INFO(name << ", " << in_words(layout.ranks, layout.overrides));
      check_close(train_ranks(setting, layout.ranks, common + layout.overrides, 12), expected, 1e-3, 3e-2);
    }
  }
}

TEST_CASE("a checkpoint of FP8 experts is read on any ranks and at any level, and resumes bitwise", "[ranks]") {
  const TrainingSetting setting;
  const Overrides common = expert_model + Overrides{fp8_level("O3")};
  const RankCase written{4, common + Overrides{"parallel.expert=2", "parallel.tensor=2"}};
  const std::vector<double> whole = losses_of(setting, written, 4, {}, {});
  const TemporaryDirectory folder;
  losses_of(setting, written, 3, {}, folder.path());
  const auto checkpoint = folder.path() / "step-00000003";
  CHECK(losses_of(setting, written, 1, checkpoint, {}).front() == whole.back());
  // The same weights, of which products round their operands alike; without FP8 in the mean to a tenth of a per cent.
  for (const RankCase& layout : expert_ranks) {
    INFO(in_words(layout.ranks, layout.overrides));
    CHECK(losses_of(setting, {layout.ranks, common + layout.overrides}, 1, checkpoint, {}).front() ==
          Approx(whole.back()).epsilon(1e-4));
  }
  for (const char* name : {"O0", "O1", "O2", "off"}) {
    INFO(name);
    const RankCase other{2, expert_model + Overrides{fp8_level(name), "parallel.expert=2"}};
    CHECK(losses_of(setting, other, 1, checkpoint, {}).front() == Approx(whole.back()).epsilon(2e-3));
  }
}

}  // namespace llmtrain::test

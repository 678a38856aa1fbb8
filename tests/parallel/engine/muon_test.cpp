// SPDX-License-Identifier: Apache-2.0
// What Muon learns does not depend on the layout, and its runs go on from their checkpoints.
#include <ATen/ops/equal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "parallel/engine/model_state.h"
#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

const Overrides muon{"training.optimizer.name=\"muon\"", "batch.micro=1"};
const Overrides tied{"model.tie_embeddings=true", "model.layers=4"};
const Overrides gpt2{"model.architecture=gpt2", "model.kv_heads=4", "model.ffn_hidden_size=64", "model.layers=4"};
const Overrides experts{
    R"(model.moe={"experts": 4, "top_k": 2, "ffn_hidden_size": 24, "capacity_factor": 0, "shared_experts": 1})",
    "model.layers=4"};

void check_layouts(const TrainingSetting& setting, const Overrides& model, const std::vector<RankCase>& layouts) {
  constexpr std::int64_t steps = 6;
  const Run expected = setting.train(muon + model, steps);
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    check_close(train_ranks(setting, layout.ranks, muon + model + layout.overrides, steps), expected, 1e-5, 1e-4);
  }
}

}  // namespace

TEST_CASE("what Muon learns does not depend on the layout", "[ranks]") {
  const TrainingSetting setting;
  check_layouts(setting, tied,
                {{2, {}},
                 {2, {zero(1)}},
                 {4, {zero(2), "pipeline.loops=2"}},
                 {2, {zero(3), "pipeline.loops=4", "memory.recompute=\"full\""}},
                 {4, {zero(3), "parallel.zero_shard_ranks=2", "pipeline.loops=2"}},
                 {2, {"parallel.tensor=2"}},
                 // Two ranks hold each of the two heads of keys and values.
                 {4, {"parallel.tensor=4", "parallel.sequence=false"}},
                 {2, {"parallel.context=2"}},
                 {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
                 {8, {"parallel.tensor=2", "parallel.pipeline=2", zero(2), "pipeline.loops=2"}}});
  check_layouts(setting, gpt2, {{4, {"parallel.tensor=2", zero(1)}}});
  check_layouts(setting, experts,
                {{2, {"parallel.expert=2"}},
                 {4, {"parallel.expert=2", zero(3), "pipeline.loops=2"}},
                 {4, {"parallel.tensor=4", "parallel.expert_tensor=2", zero(1)}},
                 {8, {"parallel.tensor=4", "parallel.expert_tensor=2", "parallel.expert=2", zero(1)}},
                 {8, {"parallel.tensor=2", "parallel.expert=2", "parallel.expert_tensor=4"}},
                 {4, {"parallel.tensor=2", "parallel.expert=2", zero(2), "pipeline.loops=2"}}});
}

TEST_CASE("Muon keeps a momentum of the layers' matrices, and of all else AdamW's moments", "[trainer]") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(muon + experts));
  std::set<std::string> names;
  const StateSlices state = state_slices(trainer.model());
  for (const TensorSlice& slice : state.slices) names.insert(slice.name);
  for (const Parameter& parameter : trainer.model().graph().parameters) {
    INFO(parameter.name);
    CHECK(names.contains(parameter.name + ".m"));
    const bool is_matrix = parameter.name.find(".attention.") != std::string::npos ||
                           parameter.name.find(".ffn.shared.") != std::string::npos ||
                           parameter.name.find(".ffn.experts.") != std::string::npos;
    CHECK(names.contains(parameter.name + ".v") != is_matrix);
  }
}

TEST_CASE("a run of Muon goes on from its checkpoint with the same bits, and on another layout", "[ranks]") {
  const TrainingSetting setting;
  const Overrides compute = GENERATE(Overrides{}, Overrides{"precision.compute=\"bf16\""});
  const Overrides sharded = muon + tied + compute + Overrides{zero(3), "pipeline.loops=2"};
  const Run whole = train_ranks(setting, 2, sharded, 5);
  const auto folder = setting.directory().path() / "checkpoints";
  const auto train = [&](Communicator& communicator, bool is_resumed, std::int64_t steps) {
    Trainer trainer(layout_of(setting.recipe(sharded), communicator.size()), communicator, at::kCPU);
    if (is_resumed) trainer.resume(CheckpointReader(folder / "step-00000002"));
    const Run run = TrainingSetting::train(trainer, steps);
    if (!is_resumed) save(trainer, folder);
    return run;
  };
  LocalWorld(2).run([&](Communicator& communicator) { train(communicator, false, 2); });
  std::vector<Run> rest(2);
  LocalWorld(2).run([&](Communicator& communicator) {
    rest[static_cast<std::size_t>(communicator.rank())] = train(communicator, true, 3);
  });
  LoneTrainer alone(setting.recipe(muon + tied + compute));
  alone.resume(CheckpointReader(folder / "step-00000002"));
  const Run other = TrainingSetting::train(alone, 3);
  const double tolerance = compute.empty() ? 1e-5 : 2e-2;
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(rest[0].losses[i] == whole.losses[i + 2]);
    CHECK(rest[0].norms[i] == whole.norms[i + 2]);
    CHECK(other.losses[i] == Approx(whole.losses[i + 2]).epsilon(tolerance));
  }
}

}  // namespace llmtrain::test

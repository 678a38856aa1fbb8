// SPDX-License-Identifier: Apache-2.0
// Optimizer states in a file (memory.offload.optimizer "disk"): they are those that a rank would have in memory.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/parallel/engine/save_ranks.h"

namespace llmtrain::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* bf16 = "precision.compute=\"bf16\"";
constexpr const char* muon = "training.optimizer.name=\"muon\"";
constexpr const char* experts =
    "model.moe={\"experts\": 4, \"top_k\": 2, \"ffn_hidden_size\": 32, \"capacity_factor\": 0}";

Overrides on_disk(const TrainingSetting& setting) {
  return {"memory.offload.optimizer=\"disk\"",
          "memory.offload.folder=\"" + (setting.directory().path() / "scratch").string() + "\""};
}

struct Trained {
  Run run;
  std::vector<Saved> saved;  // by rank
  std::int64_t moments = 0, disk = 0, read = 0, written = 0;
  std::int64_t planned = 0;  // bytes that steps move
};

Trained train(const TrainingSetting& setting, const RankCase& layout, std::int64_t steps) {
  Trained trained;
  trained.saved.resize(static_cast<std::size_t>(layout.ranks));
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(setting.recipe(layout.overrides), communicator.size()), communicator, at::kCPU);
    const Run run = TrainingSetting::train(trainer, steps);
    const LocalModel& model = trainer.model();
    trained.saved[static_cast<std::size_t>(communicator.rank())] = saved_of(model);
    if (communicator.rank() != 0) return;
    trained.run = run;
    for (const ParameterUnit* unit : model.units()) {
      trained.moments += unit->parameters->bytes().moments;
      trained.disk += unit->parameters->bytes().disk;
    }
    if (model.state_disk() == nullptr) return;
    trained.read = model.state_disk()->stream().bytes_read();
    trained.written = model.state_disk()->stream().bytes_written();
    trained.planned = steps * state_file(model.layout().partition(), 0, false).traffic;
    CHECK(trained.written == steps * model.state_disk()->file().bytes());
  });
  return trained;
}

TEST_CASE("training with states on a disk has the bits of training with states in memory") {
  const TrainingSetting setting;
  // More elements than a piece has.
  const Overrides large{"model.hidden_size=128", "model.vocab_size=9000", "model.tie_embeddings=true", "batch.micro=2"};
  for (const RankCase& layout :
       std::vector<RankCase>{{1, {}},
                             {1, large + Overrides{bf16, "training.clip_norm=0.1"}},
                             {1, large + Overrides{"parallel.zero_stage=3", "training.freeze=[\"layers.0.*\"]"}},
                             {1, {bf16, "precision.fp8_level=\"O0\"", experts}},
                             {2, {bf16, zero(1), "training.optimizer.weight_decay=0.1", "batch.micro=2"}},
                             {2, {"parallel.pipeline=2", "model.tie_embeddings=true", bf16, "batch.micro=2"}},
                             {2, {zero(2), "precision.compute=\"fp16\"", "batch.micro=2"}},
                             {2, {"parallel.tensor=2", bf16}},
                             {4, {bf16, zero(3), "pipeline.loops=3", "batch.micro=1"}},
                             {4, {experts, "parallel.expert=2", zero(1), "batch.micro=1"}}}) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Overrides keys = layout.overrides + Overrides{"training.learning_rate.warmup_steps=0"};
    const Trained expected = train(setting, {layout.ranks, keys}, 2);
    const Trained got = train(setting, {layout.ranks, keys + on_disk(setting)}, 2);
    check_equal(got.run, expected.run);
    CHECK((got.saved == expected.saved));
    CHECK(got.moments == 0);
    CHECK(got.disk >= expected.moments);
    CHECK(got.written == got.read);
  }
  // No name has been left.
  CHECK(fs::is_empty(setting.directory().path() / "scratch"));
}

// Whose update takes matrix by matrix, and of other ranks' shards parts of them.
TEST_CASE("Muon's states on a disk have the bits of those in memory") {
  const TrainingSetting setting;
  // Pieces that end within a matrix.
  const Overrides large{"model.hidden_size=256", "model.ffn_hidden_size=512", "batch.global=2"};
  for (const RankCase& layout :
       std::vector<RankCase>{{1, large + Overrides{bf16, "batch.micro=2", "training.optimizer.weight_decay=0.1"}},
                             {1, {"training.optimizer.muon.nesterov=false", experts}},
                             {2, {zero(0), bf16, "batch.micro=2"}},
                             {2, large + Overrides{zero(1), "batch.micro=1", "training.clip_norm=0.1"}},
                             {2,
                              {zero(2), bf16, "batch.micro=2", "pipeline.loops=3", "training.clip_norm=0",
                               "training.update_in_backward=true"}},
                             {4, {zero(3), bf16, "batch.micro=1", "parallel.tensor=2"}},
                             {4, {experts, "parallel.expert=2", zero(1), "batch.micro=1"}}}) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Overrides keys = layout.overrides + Overrides{muon, "training.learning_rate.warmup_steps=0"};
    const Trained expected = train(setting, {layout.ranks, keys}, 2);
    const Trained got = train(setting, {layout.ranks, keys + on_disk(setting)}, 2);
    check_equal(got.run, expected.run);
    CHECK((got.saved == expected.saved));
    CHECK(got.moments == 0);
    CHECK(got.read + got.written == got.planned);
  }
}

// With scales that follow from all ranks' gradients and from all that an update leaves.
TEST_CASE("FP8 states on a disk have the bits of those in memory") {
  const TrainingSetting setting;
  const auto level = [](const std::string& name) { return "precision.fp8_level=\"" + name + "\""; };
  // Pieces that end within a matrix.
  const Overrides large{"model.hidden_size=256", "model.ffn_hidden_size=512", "batch.global=2", "batch.micro=2"};
  const Overrides leaving{"precision.gradient_scaling=\"inverse_root\"", "precision.high_precision.fallback_steps=2",
                          "batch.micro=1"};
  for (const RankCase& layout :
       std::vector<RankCase>{{1, large + Overrides{bf16, level("O2"), "training.optimizer.weight_decay=0.1"}},
                             {1, {bf16, level("O1")}},
                             {2, {level("O1"), zero(3), "batch.micro=2", "precision.stochastic_rounding=true"}},
                             {2, {bf16, level("O2"), zero(1), "batch.micro=2", "log.fp8_statistics=true"}},
                             {2, {bf16, level("O3"), "parallel.tensor=2"}},
                             {2, {level("O2"), "parallel.pipeline=2", "model.tie_embeddings=true", "batch.micro=2"}},
                             {4, leaving + Overrides{level("O3"), zero(2)}},
                             {4, {bf16, level("O2"), experts, "parallel.expert=2", zero(1), "batch.micro=1"}}}) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Overrides keys = layout.overrides + Overrides{"training.learning_rate.warmup_steps=0"};
    const std::int64_t steps = layout.overrides.front() == large.front() ? 2 : 10;
    const Trained expected = train(setting, {layout.ranks, keys}, steps);
    const Trained got = train(setting, {layout.ranks, keys + on_disk(setting)}, steps);
    check_equal(got.run, expected.run);
    CHECK((got.saved == expected.saved));
    CHECK(got.moments == 0);
    CHECK(got.read + got.written == got.planned);
  }
}

TEST_CASE("stages that are updated in the backward, one after another, have their states on a disk") {
  const TrainingSetting setting;
  const Overrides large{"model.hidden_size=128", "model.vocab_size=9000", "pipeline.loops=3"};
  for (const RankCase& layout :
       std::vector<RankCase>{{1, large + Overrides{bf16, "pipeline.schedule=\"breadth_first\"", "batch.micro=2"}},
                             {1, {experts, "pipeline.loops=3", "model.tie_embeddings=true"}},
                             {2, {bf16, zero(1), "pipeline.loops=3", "batch.micro=2"}},
                             {2, {zero(3), "batch.micro=2", "training.freeze=[\"layers.1.*\"]"}},
                             // What both ends have is updated last.
                             {2,
                              {"parallel.pipeline=2", "pipeline.loops=2", "model.layers=4", "model.tie_embeddings=true",
                               bf16, "batch.micro=2"}},
                             {4, {experts, "parallel.expert=2", zero(2), "pipeline.loops=3", "batch.micro=1"}}}) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Overrides keys =
        layout.overrides + Overrides{"training.learning_rate.warmup_steps=0", "training.clip_norm=0"};
    const std::int64_t steps = layout.overrides.front() == large.front() ? 2 : 10;
    const Trained expected = train(setting, {layout.ranks, keys}, steps);
    const Trained got =
        train(setting, {layout.ranks, keys + on_disk(setting) + Overrides{"training.update_in_backward=true"}}, steps);
    check_equal(got.run, expected.run);
    CHECK((got.saved == expected.saved));
    CHECK(got.moments == 0);
    // No piece is read in vain, in the order of the updates.
    CHECK(got.written == got.read);
  }
}

TEST_CASE("checkpoints hold what is on the disk, and fill it") {
  const TrainingSetting setting;
  for (const RankCase& layout : std::vector<RankCase>{
           {1, {bf16, "model.hidden_size=128", "model.vocab_size=9000", "model.tie_embeddings=true", "batch.micro=2"}},
           {2, {zero(2), "batch.micro=2"}},
           {2, {zero(1), bf16, muon, "batch.micro=2"}},
           {2, {bf16, "precision.fp8_level=\"O3\"", zero(1), "batch.micro=2"}}}) {
    INFO(in_words(layout.ranks, layout.overrides));
    const RankCase in_file{layout.ranks, layout.overrides + on_disk(setting)};
    const Run whole = train_ranks(setting, layout.ranks, layout.overrides, 3);
    const std::vector<double> rest(whole.losses.begin() + 2, whole.losses.end());
    for (const RankCase& saves : {layout, in_file}) {
      const fs::path folder =
          setting.directory().path() / (in_words(layout.ranks, {}) + (&saves == &layout ? "a" : "b"));
      fs::remove_all(folder);
      train_and_save(setting, saves, 2, folder);
      CHECK(resumed_losses(setting, in_file, folder / "step-00000002", 1) == rest);
      CHECK(resumed_losses(setting, layout, folder / "step-00000002", 1) == rest);
    }
  }
}

TEST_CASE("a checkpoint that is loaded between steps takes the place of what the disk has") {
  const TrainingSetting setting;
  const Recipe recipe = setting.recipe(on_disk(setting));
  const fs::path folder = setting.directory().path() / "checkpoints";
  LoneTrainer trainer(recipe);
  TrainingSetting::train(trainer, 2);
  save(trainer, folder);
  const Run first = TrainingSetting::train(trainer, 3);
  trainer.resume(CheckpointReader(folder / "step-00000002"));
  check_equal(TrainingSetting::train(trainer, 3), first);
}

TEST_CASE("a disk without room ends the start with the key, the folder and the reason") {
  const TrainingSetting setting;
  setting.directory().write("file", "no folder");
  Overrides keys = on_disk(setting);
  keys.back() = "memory.offload.folder=\"" + (setting.directory().path() / "file").string() + "\"";
  try {
    LoneTrainer trainer(setting.recipe(keys));
    FAIL("it started");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::cannot_write);
    CHECK(std::string(error.what()).starts_with("/memory/offload/folder: "));
  }
}

}  // namespace
}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "parallel/engine/model_state.h"
#include "parallel/engine/trainer.h"
#include "parallel/run/checkpoint_saver.h"
#include "tests/parallel/engine/lone_trainer.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {

// The bytes of a slice, as a checkpoint has them.
inline std::vector<std::byte> content_of(const TensorSlice& slice) {
  std::vector<std::byte> bytes;
  const auto add = [&](const void* data, std::size_t count) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), first, first + count);
  };
  if (slice.content)
    slice.content(add);
  else
    add(slice.data, static_cast<std::size_t>(bytes_of(slice)));
  return bytes;
}

// What a rank would write to a checkpoint, by the names of its slices.
using Saved = std::multimap<std::string, std::vector<std::byte>>;
inline Saved saved_of(const LocalModel& model) {
  Saved saved;
  const StateSlices state = state_slices(model);
  for (const TensorSlice& slice : state.slices) saved.emplace(slice.name, content_of(slice));
  return saved;
}

// Writes the trainer's checkpoint; all ranks of the world call it, each with its own trainer.
inline void save(Trainer& trainer, const std::filesystem::path& checkpoints) {
  CheckpointRecipe recipe;
  recipe.async = false;
  recipe.keep = 0;
  CheckpointSaver saver(checkpoints, recipe, trainer.model().groups().communicator());
  const StateSlices state = state_slices(trainer.model());
  saver.write(trainer.state(), state.slices, state.memory);
}

// A new trainer that goes on from the checkpoint, in `checkpoints`, of one that trained this many steps (below 10).
inline std::unique_ptr<LoneTrainer> resumed_after(int steps, const Recipe& recipe,
                                                  const std::filesystem::path& checkpoints) {
  {
    LoneTrainer first(recipe);
    for (int i = 0; i < steps; ++i) first.step();
    save(first, checkpoints);
  }
  auto resumed = std::make_unique<LoneTrainer>(recipe);
  resumed->resume(CheckpointReader(checkpoints / ("step-0000000" + std::to_string(steps))));
  return resumed;
}

// Trains, and leaves a checkpoint in `folder`.
inline void train_and_save(const TrainingSetting& setting, const RankCase& layout, std::int64_t steps,
                           const std::filesystem::path& folder) {
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(setting.recipe(layout.overrides), communicator.size()), communicator, at::kCPU);
    TrainingSetting::train(trainer, steps);
    save(trainer, folder);
  });
}

// Trains the steps after a checkpoint.
inline std::vector<double> resumed_losses(const TrainingSetting& setting, const RankCase& layout,
                                          const std::filesystem::path& checkpoint, std::int64_t steps) {
  std::vector<double> losses;
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(setting.recipe(layout.overrides), communicator.size()), communicator, at::kCPU);
    trainer.resume(CheckpointReader(checkpoint));
    const Run run = TrainingSetting::train(trainer, steps);
    if (communicator.rank() == 0) losses = run.losses;
  });
  return losses;
}

// Checks that a layout which saves after three steps goes on from there bitwise, and any of the others with the same
// losses up to rounding; `common` are keys of all.
inline void check_resumption(const TrainingSetting& setting, const Overrides& common, const RankCase& saved,
                             const std::vector<RankCase>& others, double tolerance = 1e-5) {
  constexpr std::int64_t before = 3, after = 3;
  const auto with_common = [&](const RankCase& layout) { return RankCase{layout.ranks, common + layout.overrides}; };
  const Run whole = train_ranks(setting, saved.ranks, common + saved.overrides, before + after);
  const auto folder = setting.directory().path() / "checkpoints";
  train_and_save(setting, with_common(saved), before, folder);
  const auto checkpoint = folder / "step-00000003";
  const std::vector<double> rest(whole.losses.begin() + before, whole.losses.end());
  CHECK(resumed_losses(setting, with_common(saved), checkpoint, after) == rest);
  for (const RankCase& other : others) {
    INFO(in_words(other.ranks, other.overrides));
    const std::vector<double> losses = resumed_losses(setting, with_common(other), checkpoint, after);
    REQUIRE(losses.size() == rest.size());
    for (std::size_t i = 0; i < rest.size(); ++i) CHECK(losses[i] == Approx(rest[i]).epsilon(tolerance));
  }
}

}  // namespace llmtrain::test

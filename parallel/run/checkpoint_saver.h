// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"
#include "core/recipe/recipe.h"
#include "parallel/comm/communicator.h"

namespace llmtrain {

// Writes checkpoints as `checkpoint` of the recipe says: with `async` the state is copied in memory and written by a
// thread of its own while training goes on, else write() returns when it is on the disk. At most one write is under
// way, and one copy in memory: the next one waits for it. Used by one thread.
//
// Each rank writes what it is given, at the same time as the others; once all have, the first one puts the checkpoint
// in place. All ranks make the same calls, which block; what fails on one of them all throw. What ranks say to each
// other they say within these calls, never on the writing threads.
class CheckpointSaver {
 public:
  // The communicator outlives this. Throws what check_shared_folder() throws.
  CheckpointSaver(std::filesystem::path checkpoints, const CheckpointRecipe& recipe, Communicator& communicator);
  // Waits for this rank's writing. One rank alone ends what it began; a failure that nobody asked for is logged.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // `slices` are this rank's part. They point into memory that may change once this returns; where `memory` owns what
  // they point to, it does not and is kept instead of being copied. Throws what write_checkpoint() throws; for the
  // write before, too, and then does not write this one.
  void write(const CheckpointState& state, std::span<const TensorSlice> slices,
             std::shared_ptr<const void> memory = nullptr);
  // Between steps: goes on with a write whose files all ranks have written, and does not wait for it. Throws what the
  // write threw.
  void progress();
  // Waits until all is on the disk. Throws what the write threw, once.
  void finish();

 private:
  struct Save;

  bool is_first() const { return communicator_.rank() == 0; }
  bool is_alone() const { return communicator_.size() == 1; }
  void start(std::function<void()> work);
  void go_on();
  void commit(std::unique_ptr<Save> save);
  void check(const Save& save, const std::optional<Error>& own) const;

  std::filesystem::path checkpoints_;
  CheckpointRecipe recipe_;
  Communicator& communicator_;
  std::string writers_;                     // names what this run's ranks write until it is in place
  std::unique_ptr<Save> save_;              // under way
  std::future<std::optional<Error>> work_;  // of this rank for it
};

}  // namespace llmtrain

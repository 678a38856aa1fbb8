// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <filesystem>
#include <span>
#include <thread>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Writes checkpoints as `checkpoint` of the recipe says: with `async` the state is copied in memory and written by a
// thread of its own while training goes on, else write() returns when it is on the disk. At most one write is under
// way, and one copy in memory: the next one waits for it. Used by one thread.
class CheckpointSaver {
 public:
  CheckpointSaver(std::filesystem::path checkpoints, const CheckpointRecipe& recipe);
  ~CheckpointSaver();  // waits; a failure that nobody asked for is logged
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // `slices` point into memory that may change once this returns. Throws what write_checkpoint() throws; for the write
  // before, too, and then does not write this one.
  void write(const CheckpointState& state, std::span<const TensorSlice> slices);
  // Waits until all is on the disk. Throws what the write threw, once.
  void finish();

 private:
  void write_now(const CheckpointState& state, std::span<const TensorSlice> slices) const;

  std::filesystem::path checkpoints_;
  CheckpointRecipe recipe_;
  std::thread thread_;
  std::exception_ptr failure_;  // of the thread; read after it has ended
};

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <filesystem>
#include <thread>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Writes checkpoints as `checkpoint` of the recipe says: with `async` the state is copied in memory and written by a
// thread of its own while training goes on, else write() returns when it is on the disk. At most one write is under
// way: the next one waits for it.
class CheckpointSaver {
 public:
  CheckpointSaver(std::filesystem::path checkpoints, const CheckpointRecipe& recipe);
  ~CheckpointSaver();  // waits; a failure that nobody asked for is logged
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // `slices` point into memory that may change once this returns. Throws Error(cannot_write), also for the write
  // before.
  void write(const CheckpointState& state, const std::vector<TensorSlice>& slices);
  // Waits until all is on the disk. Throws what the write threw.
  void finish();

 private:
  void start(CheckpointState state, std::vector<TensorSlice> slices, std::vector<std::vector<char>> memory);

  std::filesystem::path checkpoints_;
  CheckpointRecipe recipe_;
  std::thread thread_;
  std::exception_ptr failure_;
};

}  // namespace llmtrain

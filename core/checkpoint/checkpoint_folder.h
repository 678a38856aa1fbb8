// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/checkpoint/checkpoint.h"

namespace llmtrain {

// The names in a folder of checkpoints:
//   step-00000100            a checkpoint
//   step-00000100.tmp-*      being written or removed: no reader looks at it, the next write removes it
//   step-00000100.replaced   the earlier checkpoint of a step that is being written again, where the file system cannot
//                            exchange two folders atomically: valid until step-00000100 exists
//   latest                   the name of the newest checkpoint

std::string checkpoint_name(std::int64_t step);
// The step of "step-00000100"; none for any other text.
std::optional<std::int64_t> checkpoint_step(std::string_view name);

struct CheckpointFolder {
  std::int64_t step = 0;
  std::filesystem::path path;
};

// Creates a folder and its missing parents. Throws Error(cannot_write).
void make_checkpoint_folder(const std::filesystem::path& folder);

// Newest step first, including ".replaced" ones that are still valid. Throws Error(bad_data) when the folder exists and
// cannot be listed.
std::vector<CheckpointFolder> list_checkpoints(const std::filesystem::path& checkpoints);

// Removes what a killed write left, and restores a ".replaced" folder whose successor was never put in place. Throws
// Error(cannot_write).
void clear_leftovers(const std::filesystem::path& checkpoints);

// Makes `aside` the checkpoint `place`; both are in one folder. An existing checkpoint is removed only after the new
// one is in its place and flushed to the disk. Throws Error(cannot_write).
void put_checkpoint_in_place(const std::filesystem::path& aside, const std::filesystem::path& place);

// The same by two renames, for file systems that cannot exchange.
void put_checkpoint_in_two_steps(const std::filesystem::path& aside, const std::filesystem::path& place);

// Removes the checkpoints that `keep` does not name, never `written`, nor one that is being read: the next call does.
// One that cannot be removed is a warning in the log, not an error, since the new one is complete.
void remove_old_checkpoints(const std::filesystem::path& checkpoints, const std::filesystem::path& written,
                            const Retention& keep);

}  // namespace llmtrain

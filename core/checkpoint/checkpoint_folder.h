// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmtrain {

// The names in a folder of checkpoints:
//   step-00000100            a checkpoint
//   step-00000100.tmp-*      being written, or being removed: nobody reads it, the next write clears it away
//   step-00000100.replaced   the earlier checkpoint of a step that is being written again, where the file system cannot
//                            exchange two folders at once: it counts until step-00000100 is there
//   latest                   the name of the newest checkpoint

std::string checkpoint_name(std::int64_t step);
// The step of "step-00000100"; none for any other text.
std::optional<std::int64_t> checkpoint_step(std::string_view name);

struct CheckpointFolder {
  std::int64_t step = 0;
  std::filesystem::path path;
};

// Makes a folder and those above it, where they are not there yet. Throws Error(cannot_write).
void make_checkpoint_folder(const std::filesystem::path& folder);

// Newest step first, ".replaced" ones where they count. Throws Error(bad_data) when the folder is there and cannot be
// listed.
std::vector<CheckpointFolder> list_checkpoints(const std::filesystem::path& checkpoints);

// Removes what a killed write left, and puts a ".replaced" folder back where its successor never came. Throws
// Error(cannot_write).
void clear_leftovers(const std::filesystem::path& checkpoints);

// Makes `aside` the checkpoint `place`, both in one folder. A checkpoint that is there is lost only after the new one
// is in its place and on the disk. Throws Error(cannot_write).
void put_checkpoint_in_place(const std::filesystem::path& aside, const std::filesystem::path& place);

// The same by two renames, for file systems that cannot exchange.
void put_checkpoint_in_two_steps(const std::filesystem::path& aside, const std::filesystem::path& place);

// Removes all but the newest `keep` checkpoints (0 keeps all), never `written`. What cannot be removed is a warning in
// the log, not an error: the run is not worse off.
void remove_old_checkpoints(const std::filesystem::path& checkpoints, const std::filesystem::path& written,
                            std::int64_t keep);

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/manifest.h"

namespace llmtrain {

// One checkpoint written by several writers at the same time, each its own part. They need a folder that all of
// them see; how they communicate is up to the caller:
//   1. one of them   clear_leftovers() before any of them begins
//   2. each of them  PartWriter::write() into the same checkpoint_aside(), and reports what it has written
//   3. one of them   commit_checkpoint() once all have reported, or discard_checkpoint() where one has failed
// No reader sees anything before the last step has ended.

// What a writer has written: its files, and the slices in them. manifest_text() and parse_manifest() convert it to text
// and back.
using CheckpointPart = Manifest;

// The files of all parts are numbered consecutively: those of one part start with number `first`, counted from 0.
struct FileNumbers {
  std::size_t first = 0;
  std::size_t total = 0;
};

class PartWriter {
 public:
  // The slices' memory outlives this object. A slice is never split over files; a new file is started when the current
  // one would exceed `file_bytes`. Throws Error(internal_error) for slices that are not within their tensors.
  explicit PartWriter(std::span<const TensorSlice> slices, std::int64_t file_bytes = default_file_bytes);

  std::int64_t bytes() const { return bytes_; }  // of the slices
  std::size_t files() const { return file_of_.empty() ? 0 : file_of_.back() + 1; }

  // What write() will return, except for the files' sizes and hashes.
  CheckpointPart plan(const FileNumbers& numbers) const;
  // Creates the folder if needed, and blocks until all files are on the disk. Throws Error(cannot_write).
  CheckpointPart write(const std::filesystem::path& aside, const FileNumbers& numbers) const;

 private:
  std::span<const TensorSlice> slices_;
  std::vector<std::size_t> file_of_;  // of each slice
  std::int64_t bytes_ = 0;
};

// The folder in which the parts of that step's checkpoint are written. `writers` is unique per run: "4711".
std::filesystem::path checkpoint_aside(const std::filesystem::path& checkpoints, std::int64_t step,
                                       const std::string& writers);

// Joins all parts. Throws Error(internal_error) where they do not cover each tensor exactly once.
Manifest join_parts(const CheckpointState& state, std::span<const CheckpointPart> parts);

// Makes `aside` the checkpoint of its step, as write_checkpoint() describes, and removes old ones. Throws as
// join_parts(); also Error(cannot_write) where a file is not as its writer wrote it. `aside` may then still exist.
std::filesystem::path commit_checkpoint(const std::filesystem::path& checkpoints, const std::filesystem::path& aside,
                                        const CheckpointState& state, std::span<const CheckpointPart> parts,
                                        const Retention& keep);

// Removes what was written of a checkpoint; the next write removes what cannot be removed now.
void discard_checkpoint(const std::filesystem::path& aside) noexcept;

// The end of a message that a checkpoint cannot be written: the space that it needs and the space that is free, once
// what was written is discarded.
std::string space_note(const std::filesystem::path& checkpoints, std::int64_t bytes);

}  // namespace llmtrain

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

// One checkpoint of several writers, each of which writes its part at the same time. They need a folder that all of
// them see; how they talk is their caller's business:
//   1. one of them   clear_leftovers() before any of them begins
//   2. each of them  PartWriter::write() into the same checkpoint_aside(), and tells what it has written
//   3. one of them   commit_checkpoint() once it has heard of all, or discard_checkpoint() where one has failed
// No reader sees anything before the last step has ended.

// What a writer has written: its files, and its slices as far as they go. In text: manifest_text(), parse_manifest().
using CheckpointPart = Manifest;

// The files of all parts are counted through: those of one begin with number `first`, from 0.
struct FileNumbers {
  std::size_t first = 0;
  std::size_t total = 0;
};

class PartWriter {
 public:
  // The slices' memory outlives this. A slice goes whole into a file; a new file is begun where the last would pass
  // `file_bytes`. Throws Error(internal_error) for slices that do not lie in their tensors.
  explicit PartWriter(std::span<const TensorSlice> slices, std::int64_t file_bytes = default_file_bytes);

  std::int64_t bytes() const { return bytes_; }  // of the slices
  std::size_t files() const { return file_of_.empty() ? 0 : file_of_.back() + 1; }

  // What write() will tell, but for the files' sizes and hashes.
  CheckpointPart plan(const FileNumbers& numbers) const;
  // Makes the folder if need be, and blocks until all files are on the disk. Throws Error(cannot_write).
  CheckpointPart write(const std::filesystem::path& aside, const FileNumbers& numbers) const;

 private:
  ManifestFile write_file(const std::filesystem::path& file, std::size_t index) const;

  std::span<const TensorSlice> slices_;
  std::vector<std::size_t> file_of_;  // of each slice
  std::int64_t bytes_ = 0;
};

// Where the parts of that step's checkpoint are written. One `writers` differs from another run's: "4711".
std::filesystem::path checkpoint_aside(const std::filesystem::path& checkpoints, std::int64_t step,
                                       const std::string& writers);

// All parts together. Throws Error(internal_error) where they do not make up each tensor once.
Manifest join_parts(const CheckpointState& state, std::span<const CheckpointPart> parts);

// Makes `aside` the checkpoint of its step, as write_checkpoint() says, and removes old ones. Throws as join_parts();
// Error(cannot_write) also where a file is not there as its writer wrote it. Then `aside` may still be there.
std::filesystem::path commit_checkpoint(const std::filesystem::path& checkpoints, const std::filesystem::path& aside,
                                        const CheckpointState& state, std::span<const CheckpointPart> parts,
                                        std::int64_t keep);

// Removes what was written of a checkpoint; what cannot be removed the next write clears away.
void discard_checkpoint(const std::filesystem::path& aside) noexcept;

// The end of a message that a checkpoint cannot be written: what it takes and what is free, once it is discarded.
std::string space_note(const std::filesystem::path& checkpoints, std::int64_t bytes);

}  // namespace llmtrain

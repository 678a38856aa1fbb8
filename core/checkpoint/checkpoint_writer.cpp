// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/units.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/checkpoint_folder.h"
#include "core/checkpoint/checkpoint_part.h"
#include "core/checkpoint/manifest.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// Parts of one tensor come from several writers; its dtype, shape and scale must be the same in all of them.
void append_part(Manifest& whole, const CheckpointPart& part) {
  const std::size_t files = whole.files.size();
  whole.files.insert(whole.files.end(), part.files.begin(), part.files.end());
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    const LogicalTensor& tensor = part.tensors[i];
    const auto [position, is_new] = whole.index.emplace(tensor.name, whole.tensors.size());
    if (is_new) {
      whole.tensors.push_back(tensor);
      whole.slices.emplace_back();
    }
    if (!(whole.tensors[position->second] == tensor))
      throw Error(ExitCode::internal_error, "the slices of " + tensor.name + " differ in dtype, shape or scale");
    // A part counts its files from 0; those of earlier parts come before them.
    for (const ManifestSlice& slice : part.slices[i])
      whole.slices[position->second].push_back({files + slice.file, slice.box});
  }
}

// Ranks that do not share a file system would each see only their own files.
void check_files_are_there(const fs::path& aside, const std::vector<ManifestFile>& files) {
  for (const ManifestFile& file : files) {
    std::error_code error;
    const auto bytes = fs::file_size(aside / file.name, error);
    if (error || bytes != static_cast<std::uintmax_t>(file.bytes))
      throw Error(ExitCode::cannot_write, (aside / file.name).string() + ": does not exist here with the " +
                                              std::to_string(file.bytes) +
                                              " bytes that its rank wrote; log.directory must be one folder for all "
                                              "ranks: put it on a file system that all nodes share");
  }
}

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  const std::string text = manifest_text(manifest);
  FileWriter writer(folder / "manifest.json");
  writer.write(text.data(), text.size());
  writer.close();
  flush_directory(folder);
}

// A folder that is removed with its contents on destruction, unless it was renamed before.
class FolderAside {
 public:
  explicit FolderAside(fs::path path) : path_(std::move(path)) {}
  ~FolderAside() { discard_checkpoint(path_); }
  FolderAside(const FolderAside&) = delete;
  FolderAside& operator=(const FolderAside&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

fs::path write_and_commit(const fs::path& checkpoints, const CheckpointState& state, const PartWriter& writer,
                          std::int64_t keep) {
  make_checkpoint_folder(checkpoints);
  clear_leftovers(checkpoints);
  // The process id keeps two programs from writing into one folder.
  const FolderAside aside(checkpoint_aside(checkpoints, state.step, std::to_string(::getpid())));
  const CheckpointPart part = writer.write(aside.path(), {0, writer.files()});
  return commit_checkpoint(checkpoints, aside.path(), state, std::span(&part, 1), keep);
}

}  // namespace

fs::path checkpoint_aside(const fs::path& checkpoints, std::int64_t step, const std::string& writers) {
  return checkpoints / (checkpoint_name(step) + ".tmp-" + writers);
}

Manifest join_parts(const CheckpointState& state, std::span<const CheckpointPart> parts) {
  Manifest manifest;
  manifest.state = state;
  for (const CheckpointPart& part : parts) append_part(manifest, part);
  // check_manifest() builds the index itself, and would take the entries for duplicates.
  manifest.index.clear();
  try {
    check_manifest(manifest, "the new checkpoint");
  } catch (const Error& error) {
    throw Error(ExitCode::internal_error, error.what());
  }
  return manifest;
}

fs::path commit_checkpoint(const fs::path& checkpoints, const fs::path& aside, const CheckpointState& state,
                           std::span<const CheckpointPart> parts, std::int64_t keep) {
  const Manifest manifest = join_parts(state, parts);
  make_checkpoint_folder(aside);  // nobody has where there is nothing to write
  check_files_are_there(aside, manifest.files);
  // Last of the files: without a manifest a folder is no checkpoint.
  write_manifest(aside, manifest);
  fs::path place = checkpoints / checkpoint_name(state.step);
  put_checkpoint_in_place(aside, place);
  // Only now, so that `latest` never names a checkpoint that is not in place; and old ones go only after that.
  write_file_atomically(checkpoints / "latest", place.filename().string() + "\n");
  remove_old_checkpoints(checkpoints, place, keep);
  return place;
}

void discard_checkpoint(const fs::path& aside) noexcept {
  std::error_code ignored;
  fs::remove_all(aside, ignored);
}

std::string space_note(const fs::path& checkpoints, std::int64_t bytes) {
  std::error_code error;
  // Measured after the failed write has been discarded: what is free then is what the next attempt has.
  const auto available = fs::space(checkpoints, error).available;
  const std::string free = error ? "an unknown number of" : std::to_string(available);
  const std::string readable = error ? "" : " (" + format_bytes(static_cast<std::int64_t>(available)) + ")";
  return "; the checkpoint takes about " + std::to_string(bytes) + " bytes (" + format_bytes(bytes) + "), " + free +
         " bytes" + readable + " are free there: make room, lower checkpoint.keep or choose another log.directory";
}

fs::path write_checkpoint(const fs::path& checkpoints, const CheckpointState& state,
                          std::span<const TensorSlice> tensors, std::int64_t keep, std::int64_t file_bytes) {
  const PartWriter writer(tensors, file_bytes);
  const CheckpointPart planned = writer.plan({0, writer.files()});
  join_parts(state, std::span(&planned, 1));  // before anything is written
  try {
    return write_and_commit(checkpoints, state, writer, keep);
  } catch (const Error& error) {
    if (error.code() != ExitCode::cannot_write) throw;
    throw Error(ExitCode::cannot_write, error.what() + space_note(checkpoints, writer.bytes()));
  }
}

}  // namespace llmtrain

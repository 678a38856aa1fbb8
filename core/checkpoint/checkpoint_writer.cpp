// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <numeric>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/units.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/checkpoint_folder.h"
#include "core/checkpoint/manifest.h"
#include "core/checkpoint/safetensors.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t tensors_per_file = 100'000;  // fewer than a safetensors reader takes

using TensorSlices = std::span<const TensorSlice>;

std::int64_t bytes_of(const TensorSlice& slice) {
  return safetensors_bytes(slice.dtype, slice.slice_shape).value_or(0);
}

// The index of each slice's file.
std::vector<std::size_t> split_into_files(TensorSlices slices, std::int64_t file_bytes) {
  std::vector<std::size_t> files;
  std::int64_t bytes = 0;
  std::size_t count = 0;
  std::size_t file = 0;
  for (const TensorSlice& slice : slices) {
    if (count > 0 && (bytes + bytes_of(slice) > file_bytes || count == tensors_per_file)) {
      ++file;
      bytes = 0;
      count = 0;
    }
    bytes += bytes_of(slice);
    ++count;
    files.push_back(file);
  }
  return files;
}

std::string numbered(std::size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

void list_files(Manifest& manifest, std::size_t count) {
  const std::string none(64, '0');  // until the file is written
  for (std::size_t i = 0; i < count; ++i) {
    std::string name = "tensors-" + numbered(i + 1) + "-of-" + numbered(count) + ".safetensors";
    manifest.files.push_back({std::move(name), 0, none});
  }
}

void list_slice(Manifest& manifest, const TensorSlice& slice, std::size_t file) {
  const auto [position, is_new] = manifest.index.emplace(slice.name, manifest.tensors.size());
  LogicalTensor tensor{slice.name, slice.dtype, slice.shape, slice.scale};
  if (is_new) {
    manifest.tensors.push_back(tensor);
    manifest.slices.emplace_back();
  }
  const LogicalTensor& known = manifest.tensors[position->second];
  if (known.dtype != tensor.dtype || known.shape != tensor.shape || known.scale != tensor.scale)
    throw Error(ExitCode::internal_error, "the slices of " + slice.name + " differ in dtype, shape or scale");
  manifest.slices[position->second].push_back({file, {slice.offset, slice.slice_shape}});
}

Manifest make_manifest(const CheckpointState& state, TensorSlices slices, const std::vector<std::size_t>& files) {
  Manifest manifest;
  manifest.state = state;
  list_files(manifest, files.empty() ? 0 : files.back() + 1);
  for (std::size_t i = 0; i < slices.size(); ++i) list_slice(manifest, slices[i], files[i]);
  manifest.index.clear();
  try {
    check_manifest(manifest, "the new checkpoint");
  } catch (const Error& error) {
    throw Error(ExitCode::internal_error, error.what());
  }
  return manifest;
}

void write_file(const fs::path& folder, TensorSlices slices, const std::vector<std::size_t>& files, std::size_t index,
                ManifestFile& file) {
  std::vector<SafetensorsTensor> tensors;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const TensorSlice& slice = slices[i];
    if (files[i] != index) continue;
    const std::string name = slice_name(slice.name, slice.shape, {slice.offset, slice.slice_shape});
    tensors.push_back({name, slice.dtype, slice.slice_shape, slice.data});
  }
  const WrittenFile written = write_safetensors(folder / file.name, std::move(tensors));
  file.bytes = written.bytes;
  file.sha256 = written.sha256;
}

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  const std::string text = manifest_text(manifest);
  FileWriter writer(folder / "manifest.json");
  writer.write(text.data(), text.size());
  writer.close();
  flush_directory(folder);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder, error))
    throw Error(ExitCode::cannot_write,
                folder.string() + ": cannot be made: " + (error ? error.message() : "something else has this name"));
}

// A folder that is removed with all that is in it, unless it has moved away by then.
class FolderAside {
 public:
  explicit FolderAside(fs::path path) : path_(std::move(path)) { make_folder(path_); }
  ~FolderAside() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  FolderAside(const FolderAside&) = delete;
  FolderAside& operator=(const FolderAside&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

fs::path write_and_commit(const fs::path& checkpoints, TensorSlices slices, const std::vector<std::size_t>& files,
                          Manifest& manifest) {
  make_folder(checkpoints);
  clear_leftovers(checkpoints);
  fs::path place = checkpoints / checkpoint_name(manifest.state.step);
  const FolderAside aside(place.string() + ".tmp-" + std::to_string(::getpid()));
  for (std::size_t i = 0; i < manifest.files.size(); ++i) write_file(aside.path(), slices, files, i, manifest.files[i]);
  write_manifest(aside.path(), manifest);
  put_checkpoint_in_place(aside.path(), place);
  write_file_atomically(checkpoints / "latest", place.filename().string() + "\n");
  return place;
}

// Asked after what was written is removed again: what a second try would find.
std::string space_note(const fs::path& checkpoints, TensorSlices slices) {
  const std::int64_t needed =
      std::accumulate(slices.begin(), slices.end(), std::int64_t{0},
                      [](std::int64_t sum, const TensorSlice& slice) { return sum + bytes_of(slice); });
  std::error_code error;
  const auto available = fs::space(checkpoints, error).available;
  const std::string free = error ? "an unknown number of" : std::to_string(available);
  const std::string readable = error ? "" : " (" + format_bytes(static_cast<std::int64_t>(available)) + ")";
  return "; the checkpoint takes about " + std::to_string(needed) + " bytes (" + format_bytes(needed) + "), " + free +
         " bytes" + readable + " are free there: make room, lower checkpoint.keep or choose another log.directory";
}

}  // namespace

fs::path write_checkpoint(const fs::path& checkpoints, const CheckpointState& state, TensorSlices tensors,
                          std::int64_t keep, std::int64_t file_bytes) {
  const std::vector<std::size_t> files = split_into_files(tensors, file_bytes);
  Manifest manifest = make_manifest(state, tensors, files);
  fs::path written;
  try {
    written = write_and_commit(checkpoints, tensors, files, manifest);
  } catch (const Error& error) {
    if (error.code() != ExitCode::cannot_write) throw;
    throw Error(ExitCode::cannot_write, error.what() + space_note(checkpoints, tensors));
  }
  remove_old_checkpoints(checkpoints, written, keep);
  return written;
}

}  // namespace llmtrain

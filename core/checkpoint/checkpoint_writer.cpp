// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/units.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/checkpoint_folder.h"
#include "core/checkpoint/checkpoint_part.h"
#include "core/checkpoint/manifest.h"
#include "core/checkpoint/safetensors.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t tensors_per_file = 100'000;  // fewer than a safetensors reader takes

// Five digits, as in Hugging Face's sharded files.
std::string file_name(std::size_t number, std::size_t total) {
  return fmt::format("tensors-{:05}-of-{:05}.safetensors", number + 1, total);
}

// The list of a tensor's slices, of which several writers may have some; all say the same of the tensor.
std::vector<ManifestSlice>& slices_of(Manifest& manifest, const LogicalTensor& tensor) {
  const auto [position, is_new] = manifest.index.emplace(tensor.name, manifest.tensors.size());
  if (is_new) {
    manifest.tensors.push_back(tensor);
    manifest.slices.emplace_back();
  }
  if (!(manifest.tensors[position->second] == tensor))
    throw Error(ExitCode::internal_error, "the slices of " + tensor.name + " differ in dtype, shape or scale");
  return manifest.slices[position->second];
}

// Fails as a reader of the new checkpoint would, but as an error of this program.
void check_new(Manifest& manifest, Coverage coverage) {
  // check_manifest() builds the index itself, and would take the entries for duplicates.
  manifest.index.clear();
  try {
    check_manifest(manifest, "the new checkpoint", coverage);
  } catch (const Error& error) {
    throw Error(ExitCode::internal_error, error.what());
  }
}

// Ranks that do not share a file system would each see only their own files.
void check_files_are_there(const fs::path& aside, const std::vector<ManifestFile>& files) {
  for (const ManifestFile& file : files) {
    std::error_code error;
    const auto bytes = fs::file_size(aside / file.name, error);
    if (error || bytes != static_cast<std::uintmax_t>(file.bytes))
      throw Error(
          ExitCode::cannot_write,
          fmt::format("{}: does not exist here with the {} bytes that its rank wrote; log.directory must be one "
                      "folder for all ranks: put it on a file system that all nodes share",
                      (aside / file.name).string(), file.bytes));
  }
}

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  write_file_atomically(folder / "manifest.json", manifest_text(manifest));
}

fs::path write_and_commit(const fs::path& checkpoints, const CheckpointState& state, const PartWriter& writer,
                          const Retention& keep) {
  make_checkpoint_folder(checkpoints);
  clear_leftovers(checkpoints);
  // The process id keeps two programs from writing into one folder.
  const fs::path aside = checkpoint_aside(checkpoints, state.step, std::to_string(::getpid()));
  try {
    const CheckpointPart part = writer.write(aside, {0, writer.files()});
    return commit_checkpoint(checkpoints, aside, state, std::span(&part, 1), keep);
  } catch (...) {
    discard_checkpoint(aside);
    throw;
  }
}

}  // namespace

std::int64_t bytes_of(const TensorSlice& slice) {
  const auto bytes = safetensors_bytes(slice.dtype, slice.slice_shape);
  if (!bytes)
    throw Error(ExitCode::internal_error,
                fmt::format("the slice of \"{}\" has no size: dtype {}", slice.name, slice.dtype));
  return *bytes;
}

PartWriter::PartWriter(std::span<const TensorSlice> slices, std::int64_t file_bytes) : slices_(slices) {
  std::int64_t bytes = 0;
  std::size_t count = 0;
  std::size_t file = 0;
  for (const TensorSlice& slice : slices) {
    // At least one slice per file, however large: a slice is not split.
    if (count > 0 && (bytes + bytes_of(slice) > file_bytes || count == tensors_per_file)) {
      ++file;
      bytes = 0;
      count = 0;
    }
    bytes += bytes_of(slice);
    bytes_ += bytes_of(slice);
    ++count;
    file_of_.push_back(file);
  }
  // Checked before anything is written.
  CheckpointPart part = plan({0, files()});
  check_new(part, Coverage::part);
}

CheckpointPart PartWriter::plan(const FileNumbers& numbers) const {
  CheckpointPart part;
  const std::string none(64, '0');  // until the file is written
  for (std::size_t i = 0; i < files(); ++i)
    part.files.push_back({file_name(numbers.first + i, numbers.total), 0, none});
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const TensorSlice& slice = slices_[i];
    slices_of(part, {slice.name, slice.dtype, slice.shape, slice.scale})
        .push_back({file_of_[i], {slice.offset, slice.slice_shape}});
  }
  return part;
}

CheckpointPart PartWriter::write(const fs::path& aside, const FileNumbers& numbers) const {
  make_checkpoint_folder(aside);
  CheckpointPart part = plan(numbers);
  for (std::size_t file = 0; file < files(); ++file) {
    std::vector<SafetensorsTensor> tensors;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const TensorSlice& slice = slices_[i];
      if (file_of_[i] != file) continue;
      // A whole tensor keeps its plain name, so that other programs can read it from the file.
      const std::string name = slice_name(slice.name, slice.shape, {slice.offset, slice.slice_shape});
      tensors.push_back({name, slice.dtype, slice.slice_shape, slice.data, slice.content});
    }
    const WrittenFile written = write_safetensors(aside / part.files[file].name, std::move(tensors));
    part.files[file].bytes = written.bytes;
    part.files[file].sha256 = written.sha256;
  }
  return part;
}

fs::path checkpoint_aside(const fs::path& checkpoints, std::int64_t step, const std::string& writers) {
  return checkpoints / (checkpoint_name(step) + ".tmp-" + writers);
}

Manifest join_parts(const CheckpointState& state, std::span<const CheckpointPart> parts) {
  Manifest manifest;
  manifest.state = state;
  for (const CheckpointPart& part : parts) {
    // A part counts its files from 0; those of earlier parts come before them.
    const std::size_t first = manifest.files.size();
    manifest.files.insert(manifest.files.end(), part.files.begin(), part.files.end());
    for (std::size_t i = 0; i < part.tensors.size(); ++i) {
      std::vector<ManifestSlice>& slices = slices_of(manifest, part.tensors[i]);
      for (const ManifestSlice& slice : part.slices[i]) slices.push_back({first + slice.file, slice.box});
    }
  }
  check_new(manifest, Coverage::whole);
  return manifest;
}

fs::path commit_checkpoint(const fs::path& checkpoints, const fs::path& aside, const CheckpointState& state,
                           std::span<const CheckpointPart> parts, const Retention& keep) {
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
                          std::span<const TensorSlice> tensors, const Retention& keep, std::int64_t file_bytes) {
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

void write_lone_checkpoint(const fs::path& folder, const CheckpointState& state, std::span<const TensorSlice> tensors,
                           const std::function<void(const fs::path&)>& add_files, std::int64_t file_bytes) {
  const PartWriter writer(tensors, file_bytes);
  // Beside the folder, also where its name ends in a slash.
  const fs::path place = fs::absolute(folder / "").lexically_normal().parent_path();
  const fs::path aside = place.string() + ".tmp-" + std::to_string(::getpid());
  try {
    const CheckpointPart part = writer.write(aside, {0, writer.files()});
    add_files(aside);
    write_manifest(aside, join_parts(state, std::span(&part, 1)));
    put_checkpoint_in_place(aside, place);
  } catch (...) {
    discard_checkpoint(aside);
    throw;
  }
}

}  // namespace llmtrain

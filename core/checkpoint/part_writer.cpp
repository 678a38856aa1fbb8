// SPDX-License-Identifier: Apache-2.0
#include "core/base/error.h"
#include "core/checkpoint/checkpoint_folder.h"
#include "core/checkpoint/checkpoint_part.h"
#include "core/checkpoint/safetensors.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t tensors_per_file = 100'000;  // fewer than a safetensors reader takes

std::int64_t bytes_of(const TensorSlice& slice) {
  return safetensors_bytes(slice.dtype, slice.slice_shape).value_or(0);
}

// Five digits, as in Hugging Face's sharded files.
std::string numbered(std::size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

std::string file_name(std::size_t number, std::size_t total) {
  return "tensors-" + numbered(number + 1) + "-of-" + numbered(total) + ".safetensors";
}

void list_slice(CheckpointPart& part, const TensorSlice& slice, std::size_t file) {
  const auto [position, is_new] = part.index.emplace(slice.name, part.tensors.size());
  LogicalTensor tensor{slice.name, slice.dtype, slice.shape, slice.scale};
  if (is_new) {
    part.tensors.push_back(tensor);
    part.slices.emplace_back();
  }
  if (!(part.tensors[position->second] == tensor))
    throw Error(ExitCode::internal_error, "the slices of " + slice.name + " differ in dtype, shape or scale");
  part.slices[position->second].push_back({file, {slice.offset, slice.slice_shape}});
}

}  // namespace

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
  try {
    part.index.clear();
    check_manifest(part, "the new checkpoint", Coverage::part);
  } catch (const Error& error) {
    throw Error(ExitCode::internal_error, error.what());
  }
}

CheckpointPart PartWriter::plan(const FileNumbers& numbers) const {
  CheckpointPart part;
  const std::string none(64, '0');  // until the file is written
  for (std::size_t i = 0; i < files(); ++i)
    part.files.push_back({file_name(numbers.first + i, numbers.total), 0, none});
  for (std::size_t i = 0; i < slices_.size(); ++i) list_slice(part, slices_[i], file_of_[i]);
  return part;
}

CheckpointPart PartWriter::write(const fs::path& aside, const FileNumbers& numbers) const {
  make_checkpoint_folder(aside);
  CheckpointPart part = plan(numbers);
  for (std::size_t i = 0; i < files(); ++i) part.files[i] = write_file(aside / part.files[i].name, i);
  return part;
}

ManifestFile PartWriter::write_file(const fs::path& file, std::size_t index) const {
  std::vector<SafetensorsTensor> tensors;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const TensorSlice& slice = slices_[i];
    if (file_of_[i] != index) continue;
    // A whole tensor keeps its plain name, so that other programs can read it from the file.
    const std::string name = slice_name(slice.name, slice.shape, {slice.offset, slice.slice_shape});
    tensors.push_back({name, slice.dtype, slice.slice_shape, slice.data});
  }
  WrittenFile written = write_safetensors(file, std::move(tensors));
  return {file.filename().string(), written.bytes, std::move(written.sha256)};
}

}  // namespace llmtrain

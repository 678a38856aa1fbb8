// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/manifest.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/checkpoint/safetensors.h"
#include "core/checkpoint/utf8.h"

namespace llmtrain {
namespace {

// A rank writes at most three slices of a matrix, so this allows for more ranks than can share one tensor. The limit
// bounds the time of finding overlaps, which compares slices with each other.
constexpr std::size_t slice_limit = 65'536;

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw Error(ExitCode::bad_data, file + ": " + what + "; this checkpoint cannot be used");
}

// A plain name: one that does not leave the folder, is not hidden in it and does not replace the manifest.
bool is_file_name(const std::string& name) {
  constexpr std::string_view ending = ".safetensors";
  const auto allowed = [](unsigned char character) {
    return std::isalnum(character) != 0 || character == '-' || character == '_' || character == '.';
  };
  // 255 bytes are the longest name of common file systems.
  return name.size() > ending.size() && name.size() <= 255 && name.front() != '.' && name.ends_with(ending) &&
         std::all_of(name.begin(), name.end(), allowed);
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

void check_state(const CheckpointState& state, const std::string& file) {
  if (state.step < 0) refuse(file, "/step is " + std::to_string(state.step) + ", it must be 0 or more");
  if (state.data_position < 0)
    refuse(file, "/data_position is " + std::to_string(state.data_position) + ", it must be 0 or more");
}

void check_files(const std::vector<ManifestFile>& files, const std::string& file) {
  std::set<std::string> names;
  for (const ManifestFile& entry : files) {
    if (!is_file_name(entry.name))
      refuse(file, "/files names " + quoted_text(entry.name) +
                       ": it must be the plain name of a .safetensors file in the same folder");
    if (!names.insert(entry.name).second) refuse(file, "/files names " + quoted_text(entry.name) + " twice");
    if (entry.bytes < 0) refuse(file, "/files gives " + quoted_text(entry.name) + " a negative size");
    if (!is_sha256(entry.sha256)) refuse(file, "/files gives " + quoted_text(entry.name) + " an invalid SHA-256");
  }
}

void check_tensor(const LogicalTensor& tensor, const std::vector<ManifestSlice>& slices, const std::string& file,
                  Coverage coverage) {
  const std::string what = "tensor " + quoted_text(tensor.name) + " ";
  if (tensor.name.empty()) refuse(file, "a tensor has no name");
  // An unknown dtype counts as one bit and fails like one of part bytes.
  if (safetensors_bits(tensor.dtype).value_or(1) % 8 != 0)
    refuse(file,
           what + "has the dtype " + quoted_text(tensor.dtype) + "; it must be a safetensors dtype of whole bytes");
  const bool dimensions = std::none_of(tensor.shape.begin(), tensor.shape.end(), [](auto size) { return size < 0; });
  // Before the slices: their checks may then multiply dimensions without overflow.
  if (!dimensions || !safetensors_bytes(tensor.dtype, tensor.shape)) refuse(file, what + "has an impossible size");
  if (!std::isfinite(tensor.scale)) refuse(file, what + "has a scale that is not finite");
  if (slices.size() > slice_limit) refuse(file, what + "has more than 65536 slices");

  std::vector<SliceBox> boxes;
  for (const ManifestSlice& slice : slices) {
    if (!lies_within(tensor.shape, slice.box)) refuse(file, what + "has a slice outside of its shape");
    boxes.push_back(slice.box);
  }
  if (coverage == Coverage::whole && !cover_exactly(tensor.shape, std::move(boxes)))
    refuse(file, what + "has slices that do not cover each of its elements exactly once");
}

}  // namespace

void check_manifest(Manifest& manifest, const std::string& file, Coverage coverage) {
  check_state(manifest.state, file);
  check_files(manifest.files, file);
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    check_tensor(manifest.tensors[i], manifest.slices[i], file, coverage);
    if (!manifest.index.emplace(manifest.tensors[i].name, i).second)
      refuse(file, "tensor " + quoted_text(manifest.tensors[i].name) + " appears twice");
  }
}

}  // namespace llmtrain

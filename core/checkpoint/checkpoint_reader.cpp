// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/manifest.h"
#include "core/checkpoint/safetensors.h"
#include "core/json/json_file.h"
#include "core/recipe/checkpoint_source.h"
#include "core/recipe/model_from/huggingface_config.h"
#include "core/recipe/model_from/model_from.h"
#include "core/recipe/recipe_difference.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// A file is hashed in pieces of this size, so that a checkpoint never counts twice in the memory of its reader. Far
// above the cost of a system call.
constexpr std::size_t released_bytes = std::size_t{1} << 20;

[[noreturn]] void refuse(const fs::path& file, const std::string& what) {
  throw Error(ExitCode::bad_data, file.string() + ": " + what + "; use another checkpoint, or copy this one again");
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path file = folder / "manifest.json";
  std::error_code error;
  if (!fs::exists(folder, error) && !error)
    throw Error(
        ExitCode::missing_input,
        folder.string() + ": does not exist; give a checkpoint's folder, as runs/NAME/checkpoints/step-00000100");
  if (!fs::exists(fs::symlink_status(file, error)))
    throw Error(ExitCode::missing_input, folder.string() + ": is not a checkpoint, it has no manifest.json");
  return parse_manifest(read_text_file(file), file.string());
}

// "3 tensors: a, b, c": at most three by name.
std::string tensors_in(const Manifest& manifest, std::size_t file) {
  constexpr std::size_t shown = 3;
  std::size_t count = 0;
  std::string names;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i)
    for (const ManifestSlice& slice : manifest.slices[i])
      if (slice.file == file && ++count <= shown)
        names.append(count == 1 ? "" : ", ").append(quoted_text(manifest.tensors[i].name));
  if (count > shown) names += ", …";
  return std::to_string(count) + (count == 1 ? " tensor: " : " tensors: ") + names;
}

// A checkpoint has neither links, which may point anywhere, nor pipes, on which the reader would block.
void check_regular(const fs::path& path) {
  std::error_code error;
  const auto kind = fs::symlink_status(path, error).type();
  if (kind == fs::file_type::not_found) refuse(path, "the manifest names this file, but it does not exist");
  if (kind != fs::file_type::regular) refuse(path, "is not a regular file, as the files of a checkpoint are");
}

// Calls `hashed` with the bytes of each piece, from time to time.
void verify_file(const fs::path& path, const ManifestFile& file, const std::string& tensors,
                 const std::function<void(std::size_t)>& hashed) {
  check_regular(path);
  const MappedFile mapped(path);
  const auto bytes = mapped.bytes();
  // The size first: a file that was cut short is recognised without hashing gigabytes.
  if (static_cast<std::int64_t>(bytes.size()) != file.bytes)
    refuse(path, fmt::format("has {} bytes, the manifest says {} (it holds {})", bytes.size(), file.bytes, tensors));
  Sha256 hash;
  for (std::size_t begin = 0; begin < bytes.size(); begin += released_bytes) {
    const auto piece = bytes.subspan(begin, std::min(released_bytes, bytes.size() - begin));
    hash.update(piece.data(), piece.size());
    mapped.release(piece);
    hashed(piece.size());
  }
  const std::string digits = hash.hexadecimal();
  if (digits != file.sha256)
    refuse(path, fmt::format("is damaged: its SHA-256 is {}, the manifest says {} (it holds {})", digits, file.sha256,
                             tensors));
}

// The bytes of a slice, once the file's own header agrees with the manifest.
std::span<const std::byte> slice_bytes(const SafetensorsFile& file, const LogicalTensor& tensor, const SliceBox& box) {
  const std::string name = slice_name(tensor.name, tensor.shape, box);
  const SafetensorsEntry* entry = file.find(name);
  if (entry == nullptr) refuse(file.path(), "does not hold " + quoted_text(name) + ", which the manifest places there");
  if (entry->dtype != tensor.dtype || entry->shape != box.shape)
    refuse(file.path(), "holds " + quoted_text(name) + " with a dtype or shape that differs from the manifest");
  return file.bytes(*entry);
}

std::string manifest_name(const CheckpointReader& checkpoint) {
  return (checkpoint.folder() / "manifest.json").string();
}

void refuse_differences(const std::vector<KeyDifference>& differences, const std::string& source,
                        const std::function<std::string(const KeyDifference&)>& rule) {
  std::string problems;
  for (const KeyDifference& difference : differences)
    problems.append(problems.empty() ? "" : "\n")
        .append(difference.pointer() + ": is " + difference.first.dump() + " in the recipe and " +
                difference.second.dump() + " in " + source + "; " + rule(difference));
  if (!problems.empty()) throw Error(ExitCode::bad_recipe, problems);
}

}  // namespace

// Files are mapped at first use and stay mapped.
struct CheckpointReader::OpenFiles {
  std::mutex mutex;
  std::map<std::size_t, SafetensorsFile> files;

  const SafetensorsFile& open(const fs::path& folder, const Manifest& manifest, std::size_t index) {
    // Several threads may read; a map's elements stay in place while others are added.
    const std::lock_guard lock(mutex);
    const auto found = files.find(index);
    if (found != files.end()) return found->second;
    const fs::path path = folder / manifest.files[index].name;
    check_regular(path);
    return files.emplace(index, SafetensorsFile(path)).first->second;
  }
};

CheckpointReader::CheckpointReader(const fs::path& folder)
    : folder_(folder),
      lease_(CheckpointLease::to_read(folder)),
      manifest_(std::make_shared<Manifest>(read_manifest(folder))),
      open_(std::make_shared<OpenFiles>()) {}

const CheckpointState& CheckpointReader::state() const { return manifest_->state; }

const std::vector<LogicalTensor>& CheckpointReader::tensors() const { return manifest_->tensors; }

const LogicalTensor* CheckpointReader::find(const std::string& name) const {
  const auto found = manifest_->index.find(name);
  return found == manifest_->index.end() ? nullptr : &manifest_->tensors[found->second];
}

void CheckpointReader::verify(const VerifyShare& share, const ReportShare& report) const {
  const auto is_mine = [&](std::size_t file) { return file % share.readers == share.reader; };
  double bytes = 1, done = 0;
  for (std::size_t i = 0; i < manifest_->files.size(); ++i)
    if (is_mine(i)) bytes += static_cast<double>(manifest_->files[i].bytes);
  const auto hashed = [&](std::size_t count) {
    done += static_cast<double>(count);
    report(done / bytes);
  };
  for (std::size_t i = 0; i < manifest_->files.size(); ++i)
    if (is_mine(i))
      verify_file(folder_ / manifest_->files[i].name, manifest_->files[i], tensors_in(*manifest_, i), hashed);
  // Sound files may still hold other tensors than the manifest claims.
  for (std::size_t i = 0; i < manifest_->tensors.size(); ++i)
    for (const ManifestSlice& slice : manifest_->slices[i])
      if (is_mine(slice.file))
        slice_bytes(open_->open(folder_, *manifest_, slice.file), manifest_->tensors[i], slice.box);
}

void CheckpointReader::read_box(const std::string& name, const SliceBox& box, std::span<std::byte> destination) const {
  const auto found = manifest_->index.find(name);
  if (found == manifest_->index.end())
    throw Error(ExitCode::internal_error, folder_.string() + ": has no tensor " + name);
  const LogicalTensor& tensor = manifest_->tensors[found->second];
  const std::int64_t width = *safetensors_bits(tensor.dtype) / 8;
  if (!lies_within(tensor.shape, box) ||
      static_cast<std::int64_t>(destination.size()) != element_count(box.shape) * width)
    throw Error(ExitCode::internal_error,
                folder_.string() + ": " + slice_name(name, tensor.shape, box) + " is not a valid request");
  if (destination.empty()) return;
  for (const ManifestSlice& slice : manifest_->slices[found->second]) {
    // Files without any part of the box are never opened.
    if (!overlap(slice.box, box)) continue;
    const SafetensorsFile& file = open_->open(folder_, *manifest_, slice.file);
    const auto bytes = slice_bytes(file, tensor, slice.box);
    visit_shared_runs(slice.box, box, [&](const ElementRun& run) {
      // Copied as bytes: neither side need be aligned to its elements.
      std::memcpy(destination.data() + run.in_second * width, bytes.data() + run.in_first * width,
                  static_cast<std::size_t>(run.count * width));
    });
    file.release(bytes);
  }
}

Recipe recipe_of(const CheckpointReader& checkpoint, const std::vector<Override>& overrides) {
  // Parsed without the overrides first, to tell whose mistake an error is: the manifest's or the user's.
  const std::string text = checkpoint.state().recipe.dump(), name = manifest_name(checkpoint);
  try {
    const Recipe recipe = parse_recipe(text, name, checkpoint.folder());
    if (overrides.empty()) return recipe;
  } catch (const Error& error) {
    throw Error(ExitCode::bad_data,
                std::string(error.what()) + "\n" + name + ": its recipe was written by an incompatible version");
  }
  return parse_recipe(text, name, checkpoint.folder(), overrides);
}

void check_same_model(const ModelRecipe& model, const CheckpointReader& checkpoint) {
  refuse_differences(model_differences(model, recipe_of(checkpoint).model), manifest_name(checkpoint),
                     [](const KeyDifference&) {
                       return "the two must be the same to go on from it; training.init_from starts from its weights";
                     });
}

void check_origin(const ModelRecipe& model, const ModelRecipe& origin, const std::string& source) {
  refuse_differences(origin_differences(model, origin).of_weights, source, weights_rule);
}

void check_origin(const ModelRecipe& model, const CheckpointReader& checkpoint) {
  check_origin(model, recipe_of(checkpoint).model, manifest_name(checkpoint));
  const fs::path kept = checkpoint.folder() / kept_huggingface_folder;
  check_window(model, huggingface_window(kept), (kept / "config.json").string());
}

}  // namespace llmtrain

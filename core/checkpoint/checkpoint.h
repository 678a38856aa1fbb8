// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace llmtrain {

// A checkpoint is a folder with manifest.json and safetensors files. The manifest names every logical tensor, its
// dtype, shape and scale, and which slice of it lies in which file, with a SHA-256 of each file; it says nothing of
// ranks, so any layout reads any checkpoint. Links no LibTorch.

// A contiguous slice of a logical tensor, in memory that the caller owns. For a whole tensor `offset` is all zeros and
// `slice_shape` equals `shape`.
struct TensorSlice {
  std::string name;
  std::string dtype;  // safetensors' names: "F32", "BF16", "F16", "F64", "I64", …
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> slice_shape;
  const void* data = nullptr;
  double scale = 1;
};

struct CheckpointState {
  std::int64_t step = 0;           // training steps done
  std::int64_t data_position = 0;  // samples consumed
  std::int64_t seed = 0;           // all random streams follow from seed and step
  nlohmann::ordered_json recipe;   // the resolved recipe
};

// Writes `<checkpoints>/step-00000100` (of state.step) so that no reader ever sees a part of it: into a folder beside
// it, every file flushed, then renamed, then `<checkpoints>/latest` replaced. Then removes all but the newest `keep`
// checkpoints (0 keeps all), never the one just written. Leftovers of a killed write are removed first. Returns the
// folder. Throws Error(cannot_write) that names path and reason (a full disk: how much is needed and free), leaving
// earlier checkpoints as they were.
std::filesystem::path write_checkpoint(const std::filesystem::path& checkpoints, const CheckpointState& state,
                                       std::span<const TensorSlice> tensors, std::int64_t keep);

struct LogicalTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  double scale = 1;
};

class CheckpointReader {
 public:
  // Reads the manifest. Throws Error(missing_input) without a manifest, Error(bad_data) when it is not a manifest or
  // names files outside the folder.
  explicit CheckpointReader(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const CheckpointState& state() const { return state_; }
  const std::vector<LogicalTensor>& tensors() const { return tensors_; }
  const LogicalTensor* find(const std::string& name) const;

  // Compares size and SHA-256 of every file with the manifest, and that the slices cover every tensor. Throws
  // Error(bad_data) that names the file and its tensors.
  void verify() const;

  // Elements [begin, end) of the tensor in row-major order into `destination` of exactly that many bytes.
  void read(const std::string& name, std::int64_t begin, std::int64_t end, std::span<std::byte> destination) const;

 private:
  struct Piece {
    std::string tensor;
    std::string file;
    std::vector<std::int64_t> offset;
    std::vector<std::int64_t> shape;
  };
  struct File {
    std::string name;
    std::int64_t bytes = 0;
    std::string sha256;
  };

  std::filesystem::path folder_;
  CheckpointState state_;
  std::vector<LogicalTensor> tensors_;
  std::vector<Piece> pieces_;
  std::vector<File> files_;
};

// The newest checkpoint of the folder that is whole: what `latest` names if it verifies, else the newest other one that
// does; the ones passed over are named in `skipped` with the reason. None when there is none.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& checkpoints,
                                                     std::vector<std::string>& skipped);

}  // namespace llmtrain

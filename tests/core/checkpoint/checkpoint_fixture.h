// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"

namespace llmtrain::test {

// A small checkpoint with every kind of tensor: whole, in four quarters, a scalar, an empty one, one with a scale.
// Another `salt` gives other bytes of the same shapes.
class SampleCheckpoint {
 public:
  explicit SampleCheckpoint(int salt);
  SampleCheckpoint(const SampleCheckpoint&) = delete;
  SampleCheckpoint& operator=(const SampleCheckpoint&) = delete;

  const CheckpointState& state() const { return state_; }
  const std::vector<TensorSlice>& slices() const { return slices_; }

  // Writes it as that step, in files of about 200 bytes of tensors.
  std::filesystem::path write(const std::filesystem::path& checkpoints, std::int64_t step, std::int64_t keep = 0);
  // Whether every tensor of the checkpoint has the expected bytes.
  bool is_in(const std::filesystem::path& folder) const;

 private:
  void add(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape, double scale = 1);
  void add_quarters(const std::string& name, std::int64_t rows, std::int64_t columns);

  CheckpointState state_;
  std::map<std::string, std::vector<unsigned char>> bytes_;  // of whole tensors
  std::vector<std::vector<unsigned char>> parts_;
  std::vector<TensorSlice> slices_;
  int salt_;
};

// The folder of open_newest_checkpoint().
inline std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& checkpoints,
                                                            std::vector<std::string>& skipped,
                                                            const VerifyCheckpoint& verify = verify_alone) {
  const auto newest = open_newest_checkpoint(checkpoints, skipped, verify);
  return newest ? std::optional(newest->folder()) : std::nullopt;
}

// Elements [begin, end) of the tensor in row-major order, box by box, into `destination` of exactly that many bytes.
void read_range(const CheckpointReader& reader, const std::string& name, std::int64_t begin, std::int64_t end,
                std::span<std::byte> destination);

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string_view>

#include "parallel/run/append_file.h"

namespace llmtrain {

// The checksum of TensorBoard's records: CRC-32C (Castagnoli), RFC 3720 appendix B.4.
std::uint32_t crc32c(std::string_view bytes) noexcept;

struct TensorboardScalar {
  std::string_view tag;
  double value = 0;  // stored as a float
};

// Writes scalars for TensorBoard into one event file; each point is written immediately.
class TensorboardWriter {
 public:
  // Creates a new file events.out.tfevents.<seconds since 1970>.<host>.<process>.<number> in the folder. TensorBoard
  // then ignores points of step `first_step` and later in the folder's older files: a resumed run writes them again.
  // Throws Error(cannot_write), like write().
  TensorboardWriter(const std::filesystem::path& directory, std::int64_t first_step);

  void write(std::int64_t step, std::initializer_list<TensorboardScalar> scalars);

 private:
  void write_record(std::string_view data);

  AppendFile file_;
};

}  // namespace llmtrain

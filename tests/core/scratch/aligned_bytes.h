// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "core/scratch/scratch_file.h"

namespace llmtrain::test {

inline constexpr std::int64_t unit = ScratchFile::alignment;

// Memory that a scratch file reads and writes.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::int64_t bytes, int value = 0)
      : memory_(
            static_cast<std::byte*>(std::aligned_alloc(unit, static_cast<std::size_t>(ScratchFile::aligned(bytes)))),
            std::free),
        bytes_(memory_.get(), static_cast<std::size_t>(bytes)) {
    std::memset(memory_.get(), value, bytes_.size());
  }

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
  std::span<std::byte> bytes_;
};

}  // namespace llmtrain::test

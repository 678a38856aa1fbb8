// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace llmtrain {

inline constexpr std::int64_t image_channels = 3;  // red, green and blue

// An image in memory: rows from the top, of each pixel red, green and blue.
struct Image {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> bytes;  // [height, width, image_channels]

  std::span<const std::uint8_t> row(std::int64_t number) const {
    const auto length = static_cast<std::size_t>(width * image_channels);
    return std::span(bytes).subspan(static_cast<std::size_t>(number) * length, length);
  }
};

// What decoders take: a larger one in a file of a few bytes would fill the memory.
inline constexpr std::int64_t most_pixels = 100'000'000;

}  // namespace llmtrain

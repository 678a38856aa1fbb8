// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace llmtrain::test {

inline std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

// As in PNG and zlib (RFC 2083 and RFC 1950).
inline std::uint32_t cyclic_redundancy(const std::string& bytes) {
  std::uint32_t sum = 0xFFFFFFFF;
  for (const char byte : bytes) {
    sum ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ ((sum & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~sum;
}

inline std::uint32_t adler_sum(const std::string& bytes) {
  constexpr std::uint32_t modulus = 65521;
  std::uint32_t low = 1, high = 0;
  for (const char byte : bytes) {
    low = (low + static_cast<unsigned char>(byte)) % modulus;
    high = (high + low) % modulus;
  }
  return high << 16 | low;
}

inline std::string png_chunk(const std::string& type, const std::string& content) {
  return big_endian(static_cast<std::uint32_t>(content.size())) + type + content +
         big_endian(cyclic_redundancy(type + content));
}

// The text of a PNG file of a few pixels, which are not compressed: red, green and blue of each, row by row.
inline std::string png_file(std::size_t width, std::span<const std::uint8_t> colours) {
  std::string rows;
  for (std::size_t i = 0; i < colours.size(); ++i) {
    if (i % (3 * width) == 0) rows += '\0';  // not filtered
    rows += static_cast<char>(colours[i]);
  }
  const std::size_t height = colours.size() / 3 / width;
  std::string header = big_endian(static_cast<std::uint32_t>(width)) + big_endian(static_cast<std::uint32_t>(height));
  for (const int value : {8, 2, 0, 0, 0}) header += static_cast<char>(value);  // 8 bits of three colours
  // One stored block: its length, and the length's complement.
  const auto length = static_cast<std::uint16_t>(rows.size()), complement = static_cast<std::uint16_t>(~length);
  std::string stream = "\x78\x01\x01";
  for (const std::uint16_t number : {length, complement}) {
    stream += static_cast<char>(number & 0xFF);
    stream += static_cast<char>(number >> 8);
  }
  return "\x89PNG\r\n\x1A\n" + png_chunk("IHDR", header) +
         png_chunk("IDAT", stream + rows + big_endian(adler_sum(rows))) + png_chunk("IEND", "");
}

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/byte_level.h"

#include <array>

namespace llmtrain {
namespace {

bool is_written_as_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// By character, U+0000 to U+0143; -1 for none.
std::array<int, 324> make_bytes_of_characters() {
  std::array<int, 324> bytes{};
  bytes.fill(-1);
  std::size_t next = 256;
  for (int byte = 0; byte < 256; ++byte)
    bytes[is_written_as_itself(byte) ? static_cast<std::size_t>(byte) : next++] = byte;
  return bytes;
}

}  // namespace

std::optional<std::string> bytes_of_token(std::string_view token) {
  static const auto bytes_of_characters = make_bytes_of_characters();
  std::string bytes;
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::size_t character = static_cast<unsigned char>(token[i]);
    if (character >= 0x80) {
      // All characters of the table have at most two bytes.
      if ((character & 0xE0) != 0xC0 || i + 1 == token.size()) return std::nullopt;
      character = (character & 0x1F) << 6 | (static_cast<unsigned char>(token[++i]) & 0x3F);
    }
    if (character >= bytes_of_characters.size() || bytes_of_characters[character] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(bytes_of_characters[character]));
  }
  return bytes;
}

}  // namespace llmtrain

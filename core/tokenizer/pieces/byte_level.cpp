// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/pieces/byte_level.h"

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

std::string token_of_bytes(std::string_view bytes) {
  static const auto characters_of_bytes = [] {
    std::array<std::size_t, 256> characters{};
    const auto bytes_of_characters = make_bytes_of_characters();
    for (std::size_t character = 0; character < bytes_of_characters.size(); ++character)
      if (bytes_of_characters[character] >= 0)
        characters[static_cast<std::size_t>(bytes_of_characters[character])] = character;
    return characters;
  }();
  std::string token;
  for (const char byte : bytes) {
    const std::size_t character = characters_of_bytes[static_cast<unsigned char>(byte)];
    if (character >= 0x80) token.push_back(static_cast<char>(0xC0 | character >> 6));
    token.push_back(static_cast<char>(character < 0x80 ? character : 0x80 | (character & 0x3F)));
  }
  return token;
}

std::array<unsigned char, 256> bytes_in_order_of_characters() {
  std::array<unsigned char, 256> bytes{};
  std::size_t count = 0;
  for (const int byte : make_bytes_of_characters())
    if (byte >= 0) bytes[count++] = static_cast<unsigned char>(byte);
  return bytes;
}

}  // namespace llmtrain

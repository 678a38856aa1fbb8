// SPDX-License-Identifier: Apache-2.0
#include "core/base/printable.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace llmtrain {
namespace {

struct Sequence {
  unsigned char first_low, first_high;    // lead byte
  unsigned char second_low, second_high;  // the second byte's range; all later ones are 0x80 to 0xBF
  std::size_t length;
};

// Unicode 15, table 3-7: no overlong forms, no surrogates, no code points past the last.
constexpr std::array<Sequence, 9> sequences{{{0x00, 0x7F, 0x00, 0x00, 1},
                                             {0xC2, 0xDF, 0x80, 0xBF, 2},
                                             {0xE0, 0xE0, 0xA0, 0xBF, 3},
                                             {0xE1, 0xEC, 0x80, 0xBF, 3},
                                             {0xED, 0xED, 0x80, 0x9F, 3},
                                             {0xEE, 0xEF, 0x80, 0xBF, 3},
                                             {0xF0, 0xF0, 0x90, 0xBF, 4},
                                             {0xF1, 0xF3, 0x80, 0xBF, 4},
                                             {0xF4, 0xF4, 0x80, 0x8F, 4}}};

bool within(char byte, unsigned char low, unsigned char high) {
  const auto value = static_cast<unsigned char>(byte);
  return low <= value && value <= high;
}

// Length of the well-formed character at the start of the text; 0 if there is none.
std::size_t character_length(std::string_view text) {
  const auto* sequence = std::find_if(sequences.begin(), sequences.end(), [&](const Sequence& candidate) {
    return within(text[0], candidate.first_low, candidate.first_high);
  });
  if (sequence == sequences.end() || text.size() < sequence->length) return 0;
  for (std::size_t i = 1; i < sequence->length; ++i)
    if (!within(text[i], i == 1 ? sequence->second_low : 0x80, i == 1 ? sequence->second_high : 0xBF)) return 0;
  return sequence->length;
}

// Control characters other than newline and tab. Terminals take some of U+0080 to U+009F for escape sequences.
bool is_control(std::string_view character) {
  if (character.size() == 2) return character[0] == '\xC2' && within(character[1], 0x80, 0x9F);
  return character.size() == 1 && !within(character[0], 0x20, 0x7E) && character != "\n" && character != "\t";
}

struct CodePoints {
  std::uint32_t first, last;
};

// Marks of writing direction: of one letter's place, and of the direction of what follows.
constexpr std::array<CodePoints, 4> direction_marks{
    {{0x061C, 0x061C}, {0x200E, 0x200F}, {0x202A, 0x202E}, {0x2066, 0x2069}}};

// The character must be well-formed.
std::uint32_t code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  std::uint32_t value = character.size() == 1 ? first : first & (0x7FU >> character.size());
  for (const char byte : character.substr(1)) value = value << 6 | (static_cast<unsigned char>(byte) & 0x3FU);
  return value;
}

bool sets_direction(std::string_view character) {
  if (character.size() < 2 || character.size() > 3) return false;
  const std::uint32_t value = code_point(character);
  return std::ranges::any_of(direction_marks,
                             [&](const CodePoints& marks) { return marks.first <= value && value <= marks.last; });
}

bool steers(std::string_view character) { return is_control(character) || sets_direction(character); }

// With U+FFFD for each byte of what is not shown.
template <class IsHidden>
std::string shown(std::string_view text, IsHidden is_hidden) {
  std::string result;
  while (!text.empty()) {
    // Most of it is ASCII that needs no look at more than a byte.
    const auto plain = static_cast<std::size_t>(
        std::ranges::find_if_not(text, [](char c) { return within(c, 0x20, 0x7E); }) - text.begin());
    result += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    // After an invalid byte decoding starts again at the next one.
    const std::size_t length = character_length(text);
    const std::string_view character = text.substr(0, length);
    const bool is_shown = length > 0 && !is_hidden(character);
    result += is_shown ? character : "\uFFFD";
    text.remove_prefix(is_shown ? length : 1);
  }
  return result;
}

}  // namespace

std::size_t well_formed_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    // Most text is ASCII, which needs no table.
    const std::size_t bytes = within(text[length], 0x00, 0x7F) ? 1 : character_length(text.substr(length));
    if (bytes == 0) break;
    length += bytes;
  }
  return length;
}

bool is_utf8(std::string_view text) { return well_formed_length(text) == text.size(); }

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

std::string printable(std::string_view text) { return shown(text, is_control); }

std::string message_text(std::string_view text) { return shown(text, steers); }

std::string escaped_json(std::string_view json) {
  std::string escaped;
  while (!json.empty()) {
    const std::string_view character = json.substr(0, std::max<std::size_t>(1, character_length(json)));
    // Outside of strings JSON has none of them.
    if (steers(character)) {
      constexpr std::string_view digits = "0123456789abcdef";
      const std::uint32_t value = code_point(character);
      escaped += "\\u";
      for (int shift = 12; shift >= 0; shift -= 4) escaped += digits[value >> shift & 0xFU];
    } else {
      escaped += character;
    }
    json.remove_prefix(character.size());
  }
  return escaped;
}

std::string in_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // with the zero that OpenSSL writes behind it
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

}  // namespace llmtrain

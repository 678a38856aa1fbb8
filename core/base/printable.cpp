// SPDX-License-Identifier: Apache-2.0
#include "core/base/printable.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace llmtrain {
namespace {

struct Sequence {
  unsigned char first_low, first_high;    // lead byte
  unsigned char second_low, second_high;  // the second byte's range; all later ones are 0x80 to 0xBF
  std::size_t length;
};

// Unicode 15, table 3-7, without the one-byte row.
constexpr std::array<Sequence, 8> sequences{{{0xC2, 0xDF, 0x80, 0xBF, 2},
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

bool is_printable_ascii(char byte) { return within(byte, 0x20, 0x7E) || byte == '\n' || byte == '\t'; }

// Length of the character at the start of the text; 0 when it must not be shown.
std::size_t character_length(std::string_view text) {
  if (is_printable_ascii(text[0])) return 1;
  const auto sequence = std::find_if(sequences.begin(), sequences.end(), [&](const Sequence& candidate) {
    return within(text[0], candidate.first_low, candidate.first_high);
  });
  if (sequence == sequences.end() || text.size() < sequence->length) return 0;
  if (!within(text[1], sequence->second_low, sequence->second_high)) return 0;
  const std::string_view rest = text.substr(2, sequence->length - 2);
  const bool continued = std::all_of(rest.begin(), rest.end(), [](char byte) { return within(byte, 0x80, 0xBF); });
  // U+0080 to U+009F: terminals take some of them for escape sequences.
  const bool is_control = text[0] == '\xC2' && within(text[1], 0x80, 0x9F);
  return continued && !is_control ? sequence->length : 0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    result += length == 0 ? std::string_view("\uFFFD") : text.substr(0, length);
    // After an invalid byte decoding starts again at the next one.
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace llmtrain

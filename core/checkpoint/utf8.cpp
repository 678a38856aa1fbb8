// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/utf8.h"

#include <nlohmann/json.hpp>

namespace llmtrain {
namespace {

struct Range {
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
};

// The range of the second byte: narrower after four lead bytes, which would otherwise start overlong forms, surrogates
// or code points past the last.
Range second_byte(unsigned char lead) {
  switch (lead) {
    case 0xe0:
      return {0xa0, 0xbf};
    case 0xed:
      return {0x80, 0x9f};
    case 0xf0:
      return {0x90, 0xbf};
    case 0xf4:
      return {0x80, 0x8f};
    default:
      return {};
  }
}

std::size_t sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  // 0xc0 and 0xc1 would only begin overlong forms; from 0xf5 on code points exceed U+10FFFF.
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

}  // namespace

bool valid_utf8(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    const auto lead = static_cast<unsigned char>(text[position]);
    const std::size_t length = sequence_length(lead);
    if (length == 0 || length > text.size() - position) return false;
    for (std::size_t i = 1; i < length; ++i) {
      const Range range = i == 1 ? second_byte(lead) : Range{};
      const auto byte = static_cast<unsigned char>(text[position + i]);
      if (byte < range.low || byte > range.high) return false;
    }
    position += length;
  }
  return true;
}

void append_utf8(std::string& text, std::uint32_t code_point) {
  const auto append = [&text](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto continuation = [&](int shift) { append(0x80 | ((code_point >> shift) & 0x3f)); };
  if (code_point < 0x80) {
    append(code_point);
  } else if (code_point < 0x800) {
    append(0xc0 | (code_point >> 6));
    continuation(0);
  } else if (code_point < 0x10000) {
    append(0xe0 | (code_point >> 12));
    continuation(6);
    continuation(0);
  } else {
    append(0xf0 | (code_point >> 18));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

std::string quoted_text(std::string_view text) {
  constexpr std::size_t limit = 200;
  std::string shown(text.substr(0, limit));
  if (text.size() > limit) shown += "…";
  // Replaces invalid UTF-8, to which cutting at a byte may add.
  return nlohmann::json(shown).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace llmtrain

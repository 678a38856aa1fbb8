// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/normalizers/precompiled_characters.h"

#include <utf8proc.h>

#include <cstring>

#include "core/base/printable.h"
#include "core/tokenizer/pieces/characters.h"

namespace llmtrain {
namespace {

// What its own place says of a character in base 64 (RFC 4648); -1 for others.
int value_of_base64(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::optional<std::string> from_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = value_of_base64(c);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  return bytes;
}

// The fields of a unit of the double array.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

constexpr std::size_t largest_grapheme = 5;  // bytes

// Bytes of the text's first extended grapheme cluster (UAX #29).
std::size_t first_grapheme(std::string_view text) {
  Character last = first_character(text);
  std::size_t bytes = last.bytes;
  utf8proc_int32_t state = 0;
  while (bytes < text.size()) {
    const Character next = first_character(text.substr(bytes));
    // Below U+0300 only a line feed belongs to what is before it.
    if (next.code < 0x300 && next.code != '\n') break;
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code),
                                         static_cast<utf8proc_int32_t>(next.code), &state) != 0)
      break;
    bytes += next.bytes;
    last = next;
  }
  return bytes;
}

}  // namespace

PrecompiledCharacters::PrecompiledCharacters(const JsonFields& section) {
  const auto bytes = from_base64(section.text("precompiled_charsmap"));
  const JsonFields map = section.section("precompiled_charsmap");
  std::uint32_t size = 0;
  if (!bytes) map.fail("is not base 64");
  if (bytes->size() < sizeof size) map.fail("is damaged: it has no trie");
  std::memcpy(&size, bytes->data(), sizeof size);
  if (size % sizeof(std::uint32_t) != 0 || size == 0 || size > bytes->size() - sizeof size)
    map.fail("is damaged: its trie is said to have " + std::to_string(size) + " bytes");
  trie_.resize(size / sizeof(std::uint32_t));
  std::memcpy(trie_.data(), bytes->data() + sizeof size, size);
  texts_ = bytes->substr(sizeof size + size);
  if (!is_utf8(texts_)) map.fail("is damaged: its texts are not UTF-8");
  texts_.push_back('\0');
}

std::optional<std::string_view> PrecompiledCharacters::replacement_of(std::string_view part) const {
  std::uint32_t node = offset(trie_[0]);
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    node ^= byte;
    if (byte == 0 || node >= trie_.size() || label(trie_[node]) != byte) return std::nullopt;
    const std::uint32_t unit = trie_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    const std::uint32_t place = node < trie_.size() ? value(trie_[node]) : 0;
    if (node >= trie_.size() || place >= texts_.size()) return std::nullopt;
    // Within a character.
    if ((static_cast<unsigned char>(texts_[place]) & 0xC0) == 0x80) return std::nullopt;
    return std::string_view(texts_.c_str() + place);
  }
  return std::nullopt;
}

void PrecompiledCharacters::apply(NormalizedText& text) const {
  std::string changed;
  changed.reserve(text.text.size());
  std::string_view rest = text.text;
  while (!rest.empty()) {
    std::string_view grapheme = rest.substr(0, first_grapheme(rest));
    rest.remove_prefix(grapheme.size());
    const auto whole = grapheme.size() <= largest_grapheme ? replacement_of(grapheme) : std::nullopt;
    if (whole) {
      changed += *whole;
      continue;
    }
    while (!grapheme.empty()) {
      const std::string_view part = grapheme.substr(0, first_character(grapheme).bytes);
      changed += replacement_of(part).value_or(part);
      grapheme.remove_prefix(part.size());
    }
  }
  text.text = std::move(changed);
}

}  // namespace llmtrain

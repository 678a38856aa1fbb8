// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/pieces/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace llmtrain {
namespace {

// Characters after Unicode 9 that have a combining class or are part of a composition; and U+11A7, a vowel that
// utf8proc 2.8 takes for a trailing consonant and drops.
constexpr std::pair<std::uint32_t, std::uint32_t> set_apart[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x11A7, 0x11A7},   {0x1715, 0x1715},   {0x1ABF, 0x1ACE},
    {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
    {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
    {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
};

bool is_set_apart(std::uint32_t character) {
  // The ranges ascend: the first that does not end before the character.
  const auto* range = std::ranges::lower_bound(set_apart, character, {}, [](const auto& r) { return r.second; });
  return range != std::end(set_apart) && range->first <= character;
}

// Characters that are their own normal form and that nothing before them combines with: below U+0300, most of Cyrillic
// and Greek, Chinese characters and Korean syllables. A text may be cut before one.
bool is_settled(std::uint32_t character) {
  return character < 0x300 || (character >= 0x388 && character <= 0x482) ||
         (character >= 0x3400 && character <= 0x9FFF) || (character >= 0xAC00 && character <= 0xD7A3);
}

struct Character {
  std::uint32_t code;
  std::size_t bytes;
};

// The first character of valid UTF-8.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0xF) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 7) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

// Appends the normal form of text without characters set apart.
void append_composed(std::string_view text, std::string& result) {
  if (text.empty()) return;
  utf8proc_uint8_t* composed = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, std::free);
  // The text is valid, so that memory is all that can be missing.
  if (size < 0) throw std::bad_alloc();
  result.append(reinterpret_cast<const char*>(composed), static_cast<std::size_t>(size));
}

}  // namespace

bool may_need_composition(std::string_view text) {
  // U+0300 begins with 0xCC: all characters below are settled.
  return std::ranges::any_of(text, [](char byte) { return static_cast<unsigned char>(byte) >= 0xCC; });
}

std::string compose_characters(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  // A run is a settled character and those that are not after it; one that is settled characters alone stays as it is.
  std::size_t run = 0, position = 0;
  bool settled = true;
  const auto end_run = [&] {
    if (settled)
      result += text.substr(run, position - run);
    else
      append_composed(text.substr(run, position - run), result);
    run = position;
    settled = true;
  };
  while (position < text.size()) {
    const Character next = first_character(text.substr(position));
    if (is_set_apart(next.code)) {
      end_run();
      position += next.bytes;
      end_run();
      continue;
    }
    // The last settled character before others belongs to them.
    if (is_settled(next.code)) end_run();
    settled = settled && is_settled(next.code);
    position += next.bytes;
  }
  end_run();
  return result;
}

}  // namespace llmtrain

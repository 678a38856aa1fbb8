// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/normalizers/normal_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>

#include "core/tokenizer/pieces/characters.h"

namespace llmtrain {
namespace {

// Characters after Unicode 9 that have a combining class, are part of a composition or another form of others; and
// U+11A7, a vowel that utf8proc 2.8 takes for a trailing consonant and drops.
constexpr std::pair<std::uint32_t, std::uint32_t> set_apart[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x11A7, 0x11A7},   {0x1715, 0x1715},   {0x1ABF, 0x1ACE},
    {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},   {0xAB69, 0xAB69},
    {0x10781, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC},
    {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193D, 0x1193E},
    {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1},
    {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

bool is_set_apart(char32_t character) {
  // The ranges ascend: the first that does not end before the character.
  const auto* range = std::ranges::lower_bound(set_apart, character, {}, [](const auto& r) { return r.second; });
  return range != std::end(set_apart) && range->first <= character;
}

// Characters that are their own normal form and that nothing before them combines with: the first ones, most of
// Cyrillic and Greek, Chinese characters and Korean syllables. A text may be cut before one.
bool is_settled(char32_t character, NormalForm form) {
  const bool is_chinese = character >= 0x3400 && character <= 0x9FFF;
  const bool is_korean = character >= 0xAC00 && character <= 0xD7A3;
  switch (form) {
    case NormalForm::c:
      return character < 0x300 || (character >= 0x388 && character <= 0x482) || is_chinese || is_korean;
    case NormalForm::d:
      return character < 0xC0 || is_chinese;
    case NormalForm::kc:
      return character < 0xA0 || (character >= 0x400 && character <= 0x482) || is_chinese || is_korean;
    case NormalForm::kd:
      return character < 0xA0 || is_chinese;
  }
  throw std::logic_error("not a normal form");
}

utf8proc_option_t options_of(NormalForm form) {
  const bool composes = form == NormalForm::c || form == NormalForm::kc;
  const bool is_compatible = form == NormalForm::kc || form == NormalForm::kd;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                        (is_compatible ? UTF8PROC_COMPAT : 0));
}

// Appends the normal form of text without characters set apart.
void append_normal_form(std::string_view text, NormalForm form, std::string& result) {
  if (text.empty()) return;
  utf8proc_uint8_t* normal = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &normal, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(normal, std::free);
  // The text is valid, so that memory is all that can be missing.
  if (size < 0) throw std::bad_alloc();
  result.append(reinterpret_cast<const char*>(normal), static_cast<std::size_t>(size));
}

}  // namespace

bool may_change(std::string_view text, NormalForm form) {
  // The first byte of the first character that is not settled: U+0300, U+00C0 and U+00A0.
  const unsigned char first = form == NormalForm::c ? 0xCC : form == NormalForm::d ? 0xC3 : 0xC2;
  return std::ranges::any_of(text, [&](char byte) { return static_cast<unsigned char>(byte) >= first; });
}

std::string normal_form(std::string_view text, NormalForm form) {
  std::string result;
  result.reserve(text.size());
  // A run is a settled character and those that are not after it; one that is settled characters alone stays as it is.
  std::size_t run = 0, position = 0;
  bool settled = true;
  const auto end_run = [&] {
    if (settled)
      result += text.substr(run, position - run);
    else
      append_normal_form(text.substr(run, position - run), form, result);
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
    if (is_settled(next.code, form)) end_run();
    settled = settled && is_settled(next.code, form);
    position += next.bytes;
  }
  end_run();
  return result;
}

}  // namespace llmtrain

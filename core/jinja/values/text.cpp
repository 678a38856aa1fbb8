// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/values/text.h"

#include <algorithm>

#include "core/jinja/values/character_category.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/value.h"

namespace llmtrain::jinja {
namespace {

bool ends_line(char32_t character) {
  return (character >= 0x0A && character <= 0x0D) || (character >= 0x1C && character <= 0x1E) || character == 0x85 ||
         character == 0x2028 || character == 0x2029;
}

// Where the last character before `end` begins.
std::size_t begin_of_last(std::string_view bytes, std::size_t end) {
  do {
    --end;
  } while (end > 0 && (static_cast<unsigned char>(bytes[end]) & 0xC0) == 0x80);
  return end;
}

}  // namespace

std::size_t character_count(std::string_view bytes) {
  return static_cast<std::size_t>(
      std::ranges::count_if(bytes, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

char32_t next_character(std::string_view bytes, std::size_t& position) {
  const auto first = static_cast<unsigned char>(bytes[position++]);
  if (first < 0x80) return first;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  char32_t character = first & (0x3F >> more);
  for (int index = 0; index < more && position < bytes.size(); ++index)
    character = (character << 6) | (static_cast<unsigned char>(bytes[position++]) & 0x3F);
  return character;
}

std::u32string decoded(std::string_view bytes) {
  std::u32string characters;
  characters.reserve(bytes.size());
  for (std::size_t position = 0; position < bytes.size();) characters.push_back(next_character(bytes, position));
  return characters;
}

void append(std::string& bytes, char32_t character) {
  if (character < 0x80) {
    bytes.push_back(static_cast<char>(character));
    return;
  }
  const int more = character >= 0x10000 ? 3 : character >= 0x800 ? 2 : 1;
  bytes.push_back(static_cast<char>(((0xFF00 >> (more + 1)) & 0xFF) | (character >> (6 * more))));
  for (int index = more - 1; index >= 0; --index)
    bytes.push_back(static_cast<char>(0x80 | ((character >> (6 * index)) & 0x3F)));
}

std::string encoded(std::u32string_view characters) {
  std::string bytes;
  bytes.reserve(characters.size());
  for (const char32_t character : characters) append(bytes, character);
  return bytes;
}

bool is_space(char32_t character) {
  return (character >= 0x09 && character <= 0x0D) || (character >= 0x1C && character <= 0x20) || character == 0x85 ||
         character == 0xA0 || character == 0x1680 || (character >= 0x2000 && character <= 0x200A) ||
         character == 0x2028 || character == 0x2029 || character == 0x202F || character == 0x205F ||
         character == 0x3000;
}

bool is_printable(char32_t character) {
  switch (category_of(character)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return character == ' ';
    default:
      return true;
  }
}

std::string_view stripped(std::string_view bytes, const std::optional<std::string>& characters, bool at_begin,
                          bool at_end) {
  const std::u32string set = characters ? decoded(*characters) : std::u32string();
  const auto is_stripped = [&](char32_t character) {
    return characters ? set.find(character) != std::u32string::npos : is_space(character);
  };
  std::size_t begin = 0, end = bytes.size();
  while (at_begin && begin < end) {
    std::size_t behind = begin;
    if (!is_stripped(next_character(bytes, behind))) break;
    begin = behind;
  }
  while (at_end && begin < end) {
    const std::size_t last = begin_of_last(bytes, end);
    std::size_t behind = last;
    if (!is_stripped(next_character(bytes, behind))) break;
    end = last;
  }
  return bytes.substr(begin, end - begin);
}

std::vector<std::string_view> lines_of(std::string_view bytes, bool with_ends) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t position = 0; position < bytes.size();) {
    const std::size_t end = position;
    const char32_t character = next_character(bytes, position);
    if (!ends_line(character)) continue;
    if (character == '\r' && position < bytes.size() && bytes[position] == '\n') ++position;
    lines.push_back(bytes.substr(begin, (with_ends ? position : end) - begin));
    begin = position;
  }
  if (begin < bytes.size()) lines.push_back(bytes.substr(begin));
  return lines;
}

void TextBuilder::add(std::string_view bytes, std::size_t times) {
  if (bytes.empty() || times == 0) return;
  if (times > (longest_text - bytes_.size()) / bytes.size()) throw Refused("a text is longer than 256 MiB");
  for (std::size_t index = 0; index < times; ++index) bytes_ += bytes;
}

std::string replaced(std::string_view bytes, std::string_view old, std::string_view by, std::int64_t count) {
  TextBuilder result;
  std::size_t position = 0;
  const auto is_left = [&] { return count < 0 || count-- > 0; };
  if (old.empty()) {
    while (is_left()) {
      result.add(by);
      if (position == bytes.size()) break;
      const std::size_t begin = position;
      next_character(bytes, position);
      result.add(bytes.substr(begin, position - begin));
    }
  } else {
    for (std::size_t found = bytes.find(old); found != std::string_view::npos && is_left();
         found = bytes.find(old, position)) {
      result.add(bytes.substr(position, found - position));
      result.add(by);
      position = found + old.size();
    }
  }
  result.add(bytes.substr(position));
  return result.take();
}

std::string escaped_html(std::string_view bytes) {
  TextBuilder result;
  for (const char byte : bytes) {
    switch (byte) {
      case '&':
        result.add("&amp;");
        break;
      case '<':
        result.add("&lt;");
        break;
      case '>':
        result.add("&gt;");
        break;
      case '\'':
        result.add("&#39;");
        break;
      case '"':
        result.add("&#34;");
        break;
      default:
        result.add({&byte, 1});
    }
  }
  return result.take();
}

}  // namespace llmtrain::jinja

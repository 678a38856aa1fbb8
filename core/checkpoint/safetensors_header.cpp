// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/json/json_file.h"

namespace llmtrain {
namespace {

// Appends a code point below 0x110000 that is not a surrogate.
void append_utf8(std::string& text, std::uint32_t code_point) {
  constexpr std::array<std::uint32_t, 4> lead_bytes{0x00, 0xC0, 0xE0, 0xF0};
  // The bytes after the first one, which have six bits each.
  std::size_t later = code_point < 0x80 ? 0 : code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  text += static_cast<char>(lead_bytes[later] | code_point >> (6 * later));
  while (later-- > 0) text += static_cast<char>(0x80 | (code_point >> (6 * later) & 0x3F));
}

// A parser for this grammar only, rather than a general one for JSON: it does not recurse, so nesting cannot exhaust
// the stack, and it needs no tree.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<SafetensorsEntry> parse() {
    if (text_.empty() || text_.front() != '{') fail("the header does not start with '{'");
    // Once for the whole text; escapes within strings are checked where they are decoded.
    if (!is_utf8(text_)) fail("the header is not UTF-8");
    object([this](std::string key) { header_value(std::move(key)); });
    if (text_.find_first_not_of(' ', position_) != std::string_view::npos)
      fail("something other than spaces follows the header's object");
    // After the loop, by sorting: comparing each name with all others would take quadratic time.
    refuse_duplicates();
    return std::move(entries_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    refuse_safetensors(file_, what + " (header byte " + std::to_string(position_) + ")");
  }

  void skip_whitespace() {
    while (position_ < text_.size() && std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos)
      ++position_;
  }

  char peek() {
    skip_whitespace();
    if (position_ == text_.size()) fail("the header ends too early");
    return text_[position_];
  }

  void expect(char character) {
    if (peek() != character) fail(std::string("'") + character + "' was expected");
    ++position_;
  }

  // Elements between `open` and `close`, separated by commas.
  template <typename Element>
  void sequence(char open, char close, Element element) {
    expect(open);
    if (peek() != close) {
      element();
      while (peek() == ',') {
        ++position_;
        element();
      }
    }
    expect(close);
  }

  template <typename Value>
  void object(Value value) {
    sequence('{', '}', [&] {
      std::string key = string();
      expect(':');
      value(std::move(key));
    });
  }

  void header_value(std::string key) {
    if (key == "__metadata__") {
      metadata();
      return;
    }
    // Bounds memory before an entry is stored; the header's size alone would allow millions of them.
    if (entries_.size() == safetensors_tensor_limit)
      fail("there are more than " + std::to_string(safetensors_tensor_limit) + " tensors");
    entries_.push_back(tensor(std::move(key)));
  }

  void metadata() {
    if (std::exchange(has_metadata_, true)) fail("the key \"__metadata__\" appears twice");
    object([this](std::string key) {
      // Kept only to find duplicates; the values are not used.
      if (metadata_keys_.size() == safetensors_tensor_limit) fail("\"__metadata__\" has too many keys");
      metadata_keys_.push_back(std::move(key));
      if (peek() != '"') fail("a value of \"__metadata__\" is not a string");
      string();
    });
  }

  SafetensorsEntry tensor(std::string name) {
    SafetensorsEntry entry;
    entry.name = std::move(name);
    // Names are printed in messages and tables.
    if (has_control_character(entry.name)) fail("a tensor's name has a control character");
    std::array<bool, 3> seen{};
    object([&](const std::string& key) {
      const std::size_t index = key == "dtype" ? 0 : key == "shape" ? 1 : key == "data_offsets" ? 2 : 3;
      if (index == 3) fail("tensor " + quoted_text(entry.name) + " has an unknown key");
      if (std::exchange(seen[index], true))
        fail("tensor " + quoted_text(entry.name) + " has the key \"" + key + "\" twice");
      if (index == 0) entry.dtype = string();
      if (index == 1) entry.shape = shape();
      if (index == 2) std::tie(entry.begin, entry.end) = offsets();
    });
    if (!seen[0] || !seen[1] || !seen[2])
      fail("tensor " + quoted_text(entry.name) + " lacks one of \"dtype\", \"shape\" and \"data_offsets\"");
    return entry;
  }

  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> dimensions;
    sequence('[', ']', [&] {
      if (dimensions.size() == safetensors_rank_limit) fail("a tensor has more than 64 dimensions");
      const std::uint64_t dimension = number();
      if (dimension > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) fail("a dimension is 2^63 or more");
      dimensions.push_back(static_cast<std::int64_t>(dimension));
    });
    return dimensions;
  }

  std::pair<std::uint64_t, std::uint64_t> offsets() {
    expect('[');
    const std::uint64_t begin = number();
    expect(',');
    const std::uint64_t end = number();
    expect(']');
    return {begin, end};
  }

  // Unsigned and whole: the format has no other numbers.
  std::uint64_t number() {
    peek();
    const char* first = text_.data() + position_;
    const char* last = text_.data() + text_.size();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(first, last, value);
    if (error == std::errc::invalid_argument) fail("a whole number from 0 was expected");
    if (error == std::errc::result_out_of_range) fail("a number is 2^64 or more");
    // JSON forbids leading zeros, std::from_chars does not.
    if (*first == '0' && end - first > 1) fail("a number starts with 0");
    position_ += static_cast<std::size_t>(end - first);
    return value;
  }

  std::string string() {
    expect('"');
    std::string value;
    while (true) {
      // Runs without escapes are copied as a whole.
      const std::size_t stop = text_.find_first_of("\"\\", position_);
      if (stop == std::string_view::npos) fail("a string does not end");
      append_plain(value, stop);
      ++position_;
      if (text_[stop] == '"') return value;
      escape(value);
    }
  }

  void append_plain(std::string& value, std::size_t stop) {
    const std::string_view plain = text_.substr(position_, stop - position_);
    const auto control = [](unsigned char character) { return character < 0x20; };
    if (std::any_of(plain.begin(), plain.end(), control)) fail("a string has a bare control character");
    value += plain;
    position_ = stop;
  }

  void escape(std::string& value) {
    constexpr std::string_view letters = "\"\\/bfnrt";
    constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    if (position_ == text_.size()) fail("a string does not end");
    const char letter = text_[position_++];
    const std::size_t index = letters.find(letter);
    if (index != std::string_view::npos) {
      value += meanings[index];
    } else if (letter == 'u') {
      append_utf8(value, code_point());
    } else {
      fail("a string has an unknown escape");
    }
  }

  std::uint32_t code_point() {
    const std::uint32_t first = four_digits();
    if (first < 0xd800 || first > 0xdfff) return first;
    // JSON writes a code point beyond U+FFFF as two escapes, a high and a low surrogate; either alone is no character.
    if (first > 0xdbff || text_.substr(position_, 2) != "\\u") fail("a string has half of a surrogate pair");
    position_ += 2;
    const std::uint32_t second = four_digits();
    if (second < 0xdc00 || second > 0xdfff) fail("a string has half of a surrogate pair");
    return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
  }

  std::uint32_t four_digits() {
    const std::string_view digits = text_.substr(position_, 4);
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    // from_chars() would also accept fewer digits.
    if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4) fail("a string has a broken escape");
    position_ += 4;
    return value;
  }

  void refuse_duplicates() {
    std::vector<std::string_view> names;
    for (const SafetensorsEntry& entry : entries_) names.push_back(entry.name);
    refuse_duplicates_in(std::move(names));
    refuse_duplicates_in({metadata_keys_.begin(), metadata_keys_.end()});
  }

  void refuse_duplicates_in(std::vector<std::string_view> names) const {
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) refuse_safetensors(file_, "the key " + quoted_text(*twice) + " appears twice");
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t position_ = 0;
  bool has_metadata_ = false;
  std::vector<std::string> metadata_keys_;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace

std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view header, const std::string& file) {
  return HeaderParser(header, file).parse();
}

void refuse_safetensors(const std::string& file, const std::string& what) {
  throw Error(ExitCode::bad_data, file + ": is not a valid safetensors file: " + what +
                                      "; it is damaged or incomplete: copy, download or write it again");
}

}  // namespace llmtrain

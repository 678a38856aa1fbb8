// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "core/json/json_memory.h"

namespace llmtrain {
namespace {

constexpr std::string_view blanks = " \t\r\n";

// Counted in characters, as editors do, not in bytes.
std::string place_of(std::string_view text, std::size_t index) {
  std::size_t line = 1;
  std::size_t column = 1;
  for (const char c : text.substr(0, index)) {
    if (c == '\n') {
      ++line;
      column = 1;
      // Continuation bytes of UTF-8 are no characters of their own.
    } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      ++column;
    }
  }
  return "line " + std::to_string(line) + ", column " + std::to_string(column) + ": ";
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// The parser stops at the first letter that is not valid JSON, so the word may have begun before `index`.
std::string_view word_at(std::string_view text, std::size_t index) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '+' ||
           c == '.' || c == '_';
  };
  std::size_t begin = index;
  while (begin > 0 && index - begin < 40 && is_part(text[begin - 1])) --begin;
  std::size_t end = index;
  while (end < text.size() && end - begin < 40 && is_part(text[end])) ++end;
  return text.substr(begin, end - begin);
}

std::string in_words(std::string_view word) {
  // Python's.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> spellings = {
      {{"True", "true"}, {"False", "false"}, {"None", "null"}}};
  for (const auto& [wrong, right] : spellings) {
    if (word == wrong) return std::string(word) + " is not JSON; write " + std::string(right);
  }
  for (const std::string_view name : {"NaN", "nan", "Infinity", "-Infinity", "inf", "-inf", "Inf", "-Inf"}) {
    if (word == name) return std::string(word) + " is not a JSON number";
  }
  if (word.empty()) return "";
  if (const std::string number = number_meant(word); !number.empty())
    return std::string(word) + " is not a JSON number; write " + number;
  return std::string(word) + " is not JSON; strings need double quotes";
}

char last_mark_before(std::string_view text, std::size_t index) {
  const auto mark = text.substr(0, index).find_last_not_of(blanks);
  return mark == std::string_view::npos ? '\0' : text[mark];
}

std::string at_mark(std::string_view text, std::size_t index) {
  const char mark = text[index];
  const char before = last_mark_before(text, index);
  // The two most frequent mistakes, trailing commas and comments, get messages of their own.
  if ((mark == '}' || mark == ']') && before == ',') {
    return std::string("the comma before ") + mark + " must be removed";
  }
  if (mark == '/' || mark == '#') return "JSON has no comments; write them into \"description\"";
  if (mark == '\'') return "strings need double quotes";
  if (mark == '"') return "a comma or colon is missing before this string";
  const auto shown = static_cast<unsigned char>(mark) < 0x20 || static_cast<unsigned char>(mark) >= 0x7F
                         ? std::string("this character")
                         : std::string(1, mark);
  return shown + " is not allowed here";
}

std::string explain(std::string_view text, std::size_t index, std::string_view reason) {
  // As Windows' shells write what is redirected to a file.
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) return "the text is UTF-16; save it as UTF-8";
  // The parser's own messages name its tokens and states; only their key words are used.
  if (has(reason, "UTF-8")) return "the text is not UTF-8";
  if (has(reason, "out of range") || has(reason, "out_of_range")) {
    return "the number " + std::string(word_at(text, index)) + " is too large";
  }
  if (index >= text.size()) {
    return last_mark_before(text, text.size()) == '\0' ? "the text is empty" : "the text ends too early";
  }
  if (has(reason, "control character")) return "a string contains a line break or control character";
  if (has(reason, "expected end of input")) return "there is text after the end of the recipe";
  if (has(reason, "invalid string")) return "a string has an invalid escape; a backslash is \\\\";
  const auto word = word_at(text, index);
  // In 01 the parser has read a whole number, 0, before it stops.
  if (has(reason, "invalid") || (word.size() > 1 && word.front() == '0')) {
    const auto words = in_words(word);
    if (!words.empty()) return words;
  }
  return at_mark(text, index);
}

// "line 3, column 7: …" in plain words. `position` counts the bytes that the parser has read, including the one that it
// rejected; `reason` is the parser's own message.
std::string describe_syntax_error(std::string_view text, std::size_t position, std::string_view reason) {
  // The parser counts from 1 and includes the byte that it rejected.
  const auto index = std::min(position > 0 ? position - 1 : 0, text.size());
  const bool ended = position > text.size() || has(reason, "unexpected end of input");
  const auto place = ended ? text.size() : index;
  return place_of(text, place) + explain(text, place, reason);
}

// Builds the document from the parser's events. nlohmann's own builder silently takes the last of several equal keys.
class DocumentBuilder final : public nlohmann::json_sax<Json> {
 public:
  DocumentBuilder(std::string_view text, JsonText& result) : text_(text), result_(result) {}

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(value); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(value); }
  bool number_float(number_float_t value, const string_t&) override { return scalar(value); }
  bool string(string_t& value) override {
    memory_.add_text(value.size());
    return scalar(std::move(value));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    memory_.add_text(name.size());
    auto& level = levels_.back();
    // The value of a repeated key is parsed but not stored: the first one stays.
    level.kept = level.names.insert(name).second;
    if (!level.kept) result_.duplicates.push_back(append_key(level.pointer, name));
    level.name = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& reason) override {
    result_.error = describe_syntax_error(text_, position, reason.what());
    return false;
  }

 private:
  struct Level {
    Json value;
    std::string pointer;
    std::unordered_set<std::string> names;
    std::string name;  // of the value that comes next
    bool kept = true;  // false for a value whose key occurred before
  };

  std::string child_pointer() const {
    if (levels_.empty()) return "";
    const auto& level = levels_.back();
    return append_key(level.pointer, level.value.is_array() ? std::to_string(level.value.size()) : level.name);
  }

  bool open(Json container) {
    // Copying and destroying a document recurses, so its depth must be bounded.
    if (levels_.size() == deepest_nesting) {
      result_.error = "lists and objects are nested more than " + std::to_string(deepest_nesting) + " levels deep";
      return false;
    }
    memory_.add_container();
    levels_.push_back({std::move(container), child_pointer(), {}, {}, true});
    return is_allowed();
  }

  bool close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    return scalar(std::move(value));
  }

  bool is_allowed() {
    if (memory_.exceeds()) result_.error = too_large_json;
    return !memory_.exceeds();
  }

  bool scalar(Json value) {
    memory_.add_value();
    if (!is_allowed()) return false;
    if (levels_.empty()) {
      result_.value = std::move(value);
      return true;
    }
    auto& level = levels_.back();
    if (level.value.is_array()) {
      level.value.push_back(std::move(value));
    } else if (level.kept) {
      // Bypasses ordered_map's own insert, which compares with every earlier key: `names` has done so already.
      level.value.get_ref<Json::object_t&>().emplace_back(std::move(level.name), std::move(value));
    }
    return true;
  }

  std::string_view text_;
  JsonText& result_;
  JsonMemory memory_;
  std::vector<Level> levels_;
};

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::string cut(std::string text) {
  constexpr std::size_t longest = 60;
  if (text.size() <= longest) return text;
  std::size_t end = longest;
  // Not within a character of several bytes.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

JsonText parse_json(std::string_view text) {
  JsonText result;
  if (text.starts_with("\xEF\xBB\xBF")) {
    result.error = "line 1, column 1: the text starts with a byte order mark, which JSON does not allow";
    return result;
  }
  DocumentBuilder builder(text, result);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return result;
}

std::string append_key(const std::string& pointer, std::string_view key) {
  return pointer + (Json::json_pointer() / std::string(key)).to_string();
}

std::vector<std::string> split_pointer(std::string_view pointer) {
  std::vector<std::string> keys;
  for (Json::json_pointer rest{std::string(pointer)}; !rest.empty(); rest.pop_back()) keys.push_back(rest.back());
  std::ranges::reverse(keys);
  return keys;
}

std::string shown_value(const Json& value) {
  return value.is_structured() && value.size() > 8 ? std::string(kind_of(value)) : cut(dump(value));
}

std::string shown_text(std::string_view text) {
  // As a JSON string without its quotes: control characters and invalid UTF-8 would garble the line.
  // Cut before quoting: a key may be as long as the file.
  const auto quoted = dump(Json(std::string(text.substr(0, 256))));
  return cut(quoted.substr(1, quoted.size() - 2));
}

std::string number_meant(std::string_view text) {
  std::string digits(text.substr(text.starts_with('+') ? 1 : 0));
  std::erase(digits, '_');
  if (const auto whole = number_in<std::int64_t>(digits)) return std::to_string(*whole);
  const auto number = number_in<double>(digits);
  return number && std::isfinite(*number) ? Json(*number).dump() : "";
}

Json number_or_null(const std::optional<double>& number) { return number ? Json(*number) : Json(nullptr); }

std::string_view kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

}  // namespace llmtrain

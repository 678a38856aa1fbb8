// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/values/json_text.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "core/jinja/values/comparison.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

std::string json_number(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return float_text(number);
}

std::string json_string(std::string_view bytes, bool ensure_ascii) {
  std::string result = "\"";
  for (std::size_t position = 0; position < bytes.size();) {
    const char32_t character = next_character(bytes, position);
    const auto code = static_cast<std::uint32_t>(character);
    constexpr std::string_view named = "\"\\\n\r\t\f\b", letters = "\"\\nrtfb";
    const std::size_t place = code < 0x80 ? named.find(static_cast<char>(code)) : std::string_view::npos;
    if (place != std::string_view::npos) {
      result += {'\\', letters[place]};
    } else if (code < 0x20 || (ensure_ascii && code >= 0x7F && code < 0x10000)) {
      result += fmt::format("\\u{:04x}", code);
    } else if (ensure_ascii && code >= 0x10000) {
      result += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + (code & 0x3FF));
    } else {
      append(result, character);
    }
  }
  return result + "\"";
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  std::string write(const Value& value) {
    add(value);
    return result_.take();
  }

 private:
  void add(const Value& value) {
    if (const auto* text = text_of(value)) {
      result_.add(json_string(*text, style_.ensure_ascii));
    } else if (value.is<None>()) {
      result_.add("null");
    } else if (const auto* flag = value.as<bool>()) {
      result_.add(*flag ? "true" : "false");
    } else if (const auto* integer = value.as<std::int64_t>()) {
      result_.add(std::to_string(*integer));
    } else if (const auto* number = value.as<double>()) {
      result_.add(json_number(*number));
    } else if (const auto* elements = elements_of(value)) {
      add_list(*elements);
    } else if (const auto* dictionary = value.as<Dictionary>()) {
      add_dictionary(*dictionary->entries);
    } else {
      throw Refused("Object of type " + type_name(value) + " is not JSON serializable");
    }
  }

  void break_line() {
    if (!style_.indent) return;
    result_.add("\n");
    result_.add(*style_.indent, level_);
  }

  void begin_item(bool is_first) {
    if (!is_first) result_.add(style_.between_items);
    break_line();
  }

  void add_list(const std::vector<Value>& values) {
    if (values.empty()) return result_.add("[]");
    result_.add("[");
    ++level_;
    for (std::size_t index = 0; index < values.size(); ++index) {
      begin_item(index == 0);
      add(values[index]);
    }
    --level_;
    break_line();
    result_.add("]");
  }

  void add_dictionary(const Entries& entries) {
    if (entries.pairs.empty()) return result_.add("{}");
    auto pairs = entries.pairs;
    if (style_.sort_keys) {
      std::ranges::stable_sort(pairs,
                               [](const auto& left, const auto& right) { return is_less(left.first, right.first); });
    }
    result_.add("{");
    ++level_;
    for (std::size_t index = 0; index < pairs.size(); ++index) {
      begin_item(index == 0);
      result_.add(json_string(key_text(pairs[index].first), style_.ensure_ascii));
      result_.add(style_.after_key);
      add(pairs[index].second);
    }
    --level_;
    break_line();
    result_.add("}");
  }

  static std::string key_text(const Value& key) {
    if (const auto* text = text_of(key)) return *text;
    if (key.is<None>()) return "null";
    if (const auto* flag = key.as<bool>()) return *flag ? "true" : "false";
    if (const auto* integer = key.as<std::int64_t>()) return std::to_string(*integer);
    if (const auto* number = key.as<double>()) return json_number(*number);
    throw Refused("keys must be str, int, float, bool or None, not " + type_name(key));
  }

  const JsonStyle& style_;
  TextBuilder result_;
  std::size_t level_ = 0;
};

}  // namespace

std::string json_text(const Value& value, const JsonStyle& style) { return JsonWriter(style).write(value); }

}  // namespace llmtrain::jinja

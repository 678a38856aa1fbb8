// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/values/python_text.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <cmath>

#include "core/jinja/values/object.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

void add_character(std::string& result, char32_t character, char quote) {
  if (character == static_cast<unsigned char>(quote) || character == '\\') {
    result += '\\';
    append(result, character);
  } else if (character == '\n') {
    result += "\\n";
  } else if (character == '\r') {
    result += "\\r";
  } else if (character == '\t') {
    result += "\\t";
  } else if (character < 0x20 || character == 0x7F || !is_printable(character)) {
    const auto code = static_cast<std::uint32_t>(character);
    result += code < 0x100     ? fmt::format("\\x{:02x}", code)
              : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                               : fmt::format("\\U{:08x}", code);
  } else {
    append(result, character);
  }
}

std::string joined_reprs(const std::vector<Value>& values) {
  TextBuilder result;
  for (const Value& value : values) {
    if (!result.bytes().empty()) result.add(", ");
    result.add(repr(value));
  }
  return result.take();
}

std::string dictionary_repr(const Entries& entries) {
  TextBuilder result;
  result.add("{");
  for (const auto& [key, value] : entries.pairs) {
    if (result.bytes().size() > 1) result.add(", ");
    result.add(repr(key));
    result.add(": ");
    result.add(repr(value));
  }
  result.add("}");
  return result.take();
}

}  // namespace

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, number, std::chars_format::scientific).ptr;
  const std::string_view scientific(digits, static_cast<std::size_t>(end - digits));
  const int exponent = std::stoi(std::string(scientific.substr(scientific.find('e') + 1)));
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  const auto fixed_end = std::to_chars(digits, digits + sizeof digits, number, std::chars_format::fixed).ptr;
  std::string fixed(digits, fixed_end);
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

std::string repr(std::string_view bytes) {
  const char quote =
      bytes.find('\'') != std::string_view::npos && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  std::string result(1, quote);
  for (std::size_t position = 0; position < bytes.size();)
    add_character(result, next_character(bytes, position), quote);
  return result + quote;
}

std::string repr(const Value& value) {
  if (const auto* text = value.as<Text>()) {
    const std::string quoted = repr(std::string_view(*text->bytes));
    return text->is_markup ? "Markup(" + quoted + ")" : quoted;
  }
  if (value.is<Undefined>()) return "Undefined";
  if (value.is<None>()) return "None";
  if (const auto* flag = value.as<bool>()) return *flag ? "True" : "False";
  if (const auto* integer = value.as<std::int64_t>()) return std::to_string(*integer);
  if (const auto* number = value.as<double>()) return float_text(*number);
  if (const auto* list = value.as<List>()) return "[" + joined_reprs(list->items->values) + "]";
  if (const auto* tuple = value.as<Tuple>()) {
    const auto& values = tuple->items->values;
    return "(" + joined_reprs(values) + (values.size() == 1 ? ",)" : ")");
  }
  if (const auto* dictionary = value.as<Dictionary>()) return dictionary_repr(*dictionary->entries);
  return std::get<std::shared_ptr<Object>>(value.data)->repr();
}

std::string str(const Value& value) {
  if (const auto* text = text_of(value)) return *text;
  if (value.is<Undefined>()) return "";
  if (const auto* object = value.as<std::shared_ptr<Object>>()) return (*object)->str();
  return repr(value);
}

std::string plain_text(const Value& value) {
  const auto* text = value.as<Text>();
  if (text && text->is_markup) throw Refused("a text that is marked safe can only be printed, joined and compared");
  return str(value);
}

}  // namespace llmtrain::jinja

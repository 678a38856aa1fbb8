// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/jinja/filters/filter_functions.h"
#include "core/jinja/functions/text_methods.h"
#include "core/jinja/values/iteration.h"
#include "core/jinja/values/json_text.h"
#include "core/jinja/values/letter_case.h"
#include "core/jinja/values/percent_format.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja::filter {
namespace {

Value changed_text(const Value& input, const Arguments& arguments, std::string (*change)(std::string_view)) {
  const BoundArguments bound("the filter", arguments, {});
  return text(change(plain_text(input)));
}

Value markup(std::string bytes) {
  Value value = text(std::move(bytes));
  std::get<Text>(value.data).is_markup = true;
  return value;
}

// A word begins behind these.
bool separates_words(char32_t character) {
  return is_space(character) || std::u32string_view(U"-({[<").find(character) != std::u32string_view::npos;
}

std::string words_titled(std::string_view bytes) {
  const std::u32string characters = decoded(bytes);
  std::string result;
  for (std::size_t begin = 0; begin < characters.size();) {
    std::size_t end = begin + 1;
    const bool is_gap = separates_words(characters[begin]);
    while (end < characters.size() && separates_words(characters[end]) == is_gap) ++end;
    result += jinja::upper(encoded(characters.substr(begin, 1)));
    result += jinja::lower(encoded(characters.substr(begin + 1, end - begin - 1)));
    begin = end;
  }
  return result;
}

void check_is_defined(const Value& value) {
  if (const auto* missing = value.as<Undefined>()) throw Refused(*missing->why);
}

// What a level of JSON is indented by: a number of spaces, or a text.
std::optional<std::string> indent_of(const BoundArguments& bound, std::size_t parameter) {
  if (!bound.is_given(parameter)) return std::nullopt;
  if (const auto* given = text_of(*bound.get(parameter))) return *given;
  return std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(bound.integer(parameter, 0), 0, 1000)), ' ');
}

}  // namespace

Value capitalize(const Value& input, const Arguments& arguments) {
  return changed_text(input, arguments, jinja::capitalize);
}
Value lower(const Value& input, const Arguments& arguments) { return changed_text(input, arguments, jinja::lower); }
Value upper(const Value& input, const Arguments& arguments) { return changed_text(input, arguments, jinja::upper); }
Value title(const Value& input, const Arguments& arguments) { return changed_text(input, arguments, words_titled); }

Value center(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("center", arguments, {"width"});
  return text(centered(plain_text(input), bound.integer(0, 80)));
}

Value escape(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("escape", arguments, {});
  const auto* text = input.as<Text>();
  return text && text->is_markup ? input : markup(escaped_html(str(input)));
}

Value forceescape(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("forceescape", arguments, {});
  return markup(escaped_html(str(input)));
}

Value safe(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("safe", arguments, {});
  return markup(str(input));
}

Value string(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("string", arguments, {});
  return text_of(input) ? input : text(str(input));
}

Value format(const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    throw Refused("can't handle positional and keyword arguments at the same time");
  if (arguments.named.empty()) return text(percent_formatted(plain_text(input), tuple(arguments.positional)));
  std::vector<std::pair<Value, Value>> pairs;
  for (const auto& [name, value] : arguments.named) pairs.emplace_back(text(name), value);
  return text(percent_formatted(plain_text(input), dictionary(pairs)));
}

Value indent(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("indent", arguments, {"width", "first", "blank"});
  check_is_defined(input);
  if (!text_of(input)) throw Refused("indent() takes a text, not " + type_name(input));
  std::string indention(4, ' ');
  if (bound.get(0) && text_of(*bound.get(0))) {
    indention = *text_of(*bound.get(0));
  } else if (bound.get(0)) {
    indention = std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(bound.integer(0, 4), 0, 1 << 20)), ' ');
  }
  const std::string whole = plain_text(input) + "\n";
  const auto lines = lines_of(whole);
  const bool first = bound.flag(1, false), blank = bound.flag(2, false);
  TextBuilder result;
  for (std::size_t index = 0; index < lines.size(); ++index) {
    if (index > 0) result.add("\n");
    const bool is_indented = index == 0 ? first : blank || !lines[index].empty();
    if (is_indented) result.add(indention);
    result.add(lines[index]);
  }
  return text(result.take());
}

Value replace(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("replace", arguments, {"old", "new", "count"}, 2);
  const std::int64_t count = bound.is_given(2) ? bound.integer(2, -1) : -1;
  return text(replaced(str(input), str(*bound.get(0)), str(*bound.get(1)), count));
}

Value tojson(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.flag(0, false);
  style.indent = indent_of(bound, 1);
  if (style.indent) style.between_items = ",";
  style.sort_keys = bound.flag(3, false);
  if (bound.is_given(2)) {
    const auto separators = all_of(*bound.get(2));
    if (separators.size() != 2 || !text_of(separators[0]) || !text_of(separators[1]))
      throw Refused("tojson() takes two texts as separators");
    style.between_items = *text_of(separators[0]);
    style.after_key = *text_of(separators[1]);
  }
  return text(json_text(input, style));
}

Value trim(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("trim", arguments, {"chars"});
  const auto characters = bound.is_given(0) ? std::optional(bound.text(0, "")) : std::nullopt;
  return text(std::string(stripped(plain_text(input), characters)));
}

Value truncate(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::int64_t length = bound.integer(0, 255);
  const bool cuts_words = bound.flag(1, false);
  const std::u32string end = decoded(bound.text(2, "..."));
  const std::int64_t leeway = bound.is_given(3) ? bound.integer(3, 5) : 5;
  if (length < static_cast<std::int64_t>(end.size()) || leeway < 0) throw Refused("truncate() to less than its end");
  const auto size = length_of(input);
  if (size && static_cast<std::int64_t>(*size) <= length + leeway) return input;
  if (!text_of(input)) throw Refused("truncate() takes a text, not " + type_name(input));
  const std::u32string characters = decoded(plain_text(input));
  std::u32string kept = characters.substr(0, static_cast<std::size_t>(length) - end.size());
  if (const std::size_t space = kept.rfind(U' '); !cuts_words && space != std::u32string::npos) kept.resize(space);
  return text(encoded(kept + end));
}

Value wordcount(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("wordcount", arguments, {});
  std::int64_t count = 0;
  bool is_within = false;
  for (const Value& character : all_of(text(plain_text(input)))) {
    const std::string& bytes = *text_of(character);
    const bool is_word = bytes == "_" || is_true(isalnum(bytes, {}));
    count += is_word && !is_within ? 1 : 0;
    is_within = is_word;
  }
  return integer(count);
}

}  // namespace llmtrain::jinja::filter

// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/recipe_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "core/recipe/hints.h"
#include "core/recipe/keys/rule_words.h"
#include "core/recipe/paths.h"

namespace llmtrain {
namespace {

std::string must_be(const std::string& what) { return "must be " + what; }

// The content of a string value read as JSON: users write "8" for 8 and "true" for true.
Json unquoted(const Json& value) {
  return value.is_string() ? parse_json(value.get_ref<const std::string&>()).value : Json();
}

std::string whole_number_in(const Json& value, IntegerRange range) {
  const auto inner = unquoted(value);
  double number = std::numeric_limits<double>::quiet_NaN();
  if (value.is_number_float()) number = value.get<double>();
  if (inner.is_number()) number = inner.get<double>();
  // Beyond 2^53 a double no longer holds every integer, so a hint could suggest a wrong one.
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (!(std::abs(number) <= exact) || number != std::floor(number)) return "";
  const auto whole = static_cast<std::int64_t>(number);
  return whole >= range.minimum && whole <= range.maximum ? std::to_string(whole) : "";
}

std::string number_in(const Json& value, NumberRange range) {
  const auto inner = unquoted(value);
  return inner.is_number() && contains(range, inner.get<double>()) ? shown_value(inner) : "";
}

std::string boolean_in(const Json& value) {
  const auto inner = unquoted(value);
  return inner.is_boolean() ? shown_value(inner) : "";
}

std::string word_in(const Json& value, Words words) {
  const auto near = nearest_word(value.get_ref<const std::string&>(), words);
  return near.empty() ? "" : '"' + std::string(near) + '"';
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

bool is_usable(std::string_view text, TextKind kind) {
  if (kind == TextKind::plain || kind == TextKind::schema_link) return true;
  if (text.empty() || has_control_character(text)) return false;
  if (kind == TextKind::name) {
    // A name becomes a folder: 200 leaves room within a file system's 255 bytes.
    return text.size() <= 200 && text != "." && text != ".." && text.find('/') == std::string_view::npos;
  }
  // PATH_MAX on Linux.
  return text.size() <= 4096 && !(kind == TextKind::checkpoint_source && text == "hf:");
}

}  // namespace

RecipeReader::RecipeReader(const Document& document, const std::filesystem::path& folder, Problems& problems)
    : KeyVisitor(Defaults::fill), document_(document), folder_(folder), problems_(problems) {
  enter(&document.root, "", must_be("an object with model, batch and training"));
}

const Json* RecipeReader::take(const Key& key, const std::string& rule) {
  auto& level = levels_.back();
  level.visited.push_back(key.name);
  if (level.state == State::given) {
    const auto found = level.value->find(std::string(key.name));
    if (found != level.value->end()) return &*found;
    if (key.presence == Presence::required) problems_.add_missing(pointer_to(key), rule);
  } else if (level.state == State::absent && key.presence == Presence::required) {
    // A missing section is one problem, reported when it is left, not one for each of its keys.
    level.required.push_back(key.name);
  }
  return nullptr;
}

void RecipeReader::report_type(const std::string& pointer, const Json& value, const std::string& rule,
                               const std::string& hint) {
  const auto shown = value.is_null() || value.is_structured()
                         ? std::string(kind_of(value))
                         : shown_value(value) + " is " + std::string(kind_of(value));
  problems_.add(pointer, value.is_null() || value.is_structured() ? "is " + shown : shown, rule, hint);
}

std::optional<std::int64_t> RecipeReader::whole_number(const std::string& pointer, const Json& value,
                                                       IntegerRange range, const std::string& rule) {
  if (!value.is_number_integer()) {
    // 8.0 is refused as well: the hint shows the whole number.
    if (value.is_number_float()) {
      problems_.add(pointer, shown_value(value) + " is not a whole number in 64 bits", rule,
                    whole_number_in(value, range));
    } else {
      report_type(pointer, value, rule, whole_number_in(value, range));
    }
    return std::nullopt;
  }
  // nlohmann stores positive integers as unsigned; one above int64 would wrap in the conversion.
  const bool beyond = value.is_number_unsigned() &&
                      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto number = beyond ? 0 : value.get<std::int64_t>();
  if (!beyond && number >= range.minimum && number <= range.maximum) return number;
  problems_.add(pointer, shown_value(value) + " is out of range", rule);
  return std::nullopt;
}

void RecipeReader::integer(const Key& key, std::int64_t& field, IntegerRange range) {
  const auto rule = must_be(range_words(range));
  const Json* value = take(key, rule);
  if (value == nullptr) return;
  if (const auto number = whole_number(pointer_to(key), *value, range, rule)) field = *number;
}

void RecipeReader::automatic_integer(const Key& key, std::optional<std::int64_t>& field, IntegerRange range) {
  const auto rule = must_be("\"auto\" or " + range_words(range));
  const Json* value = take(key, rule);
  if (value == nullptr) return;
  if (*value == "auto") {
    field.reset();
  } else {
    field = whole_number(pointer_to(key), *value, range, rule);
  }
}

void RecipeReader::number(const Key& key, double& field, NumberRange range) {
  const auto rule = must_be(range_words(range));
  const Json* value = take(key, rule);
  if (value == nullptr) return;
  if (!value->is_number()) {
    report_type(pointer_to(key), *value, rule, number_in(*value, range));
  } else if (!contains(range, value->get<double>())) {
    problems_.add(pointer_to(key), shown_value(*value) + " is out of range", rule);
  } else {
    field = value->get<double>();
  }
}

void RecipeReader::boolean(const Key& key, bool& field) {
  const auto rule = must_be("true or false");
  const Json* value = take(key, rule);
  if (value == nullptr) return;
  if (value->is_boolean()) {
    field = value->get<bool>();
  } else {
    report_type(pointer_to(key), *value, rule, boolean_in(*value));
  }
}

void RecipeReader::word(const Key& key, std::size_t& index, Words words) {
  const auto rule = must_be(choice_words(words));
  const Json* value = take(key, rule);
  if (value == nullptr) return;
  if (!value->is_string()) return report_type(pointer_to(key), *value, rule);
  const auto& written = value->get_ref<const std::string&>();
  const auto found = std::find(words.begin(), words.end(), written);
  if (found != words.end()) {
    index = static_cast<std::size_t>(found - words.begin());
    return;
  }
  problems_.add(pointer_to(key), shown_value(*value) + " is unknown", rule, word_in(*value, words));
}

std::optional<std::string> RecipeReader::checked_text(const std::string& pointer, const Json& value,
                                                      const TextRule& rule) {
  const auto words = must_be(text_words(rule));
  if (!value.is_string()) {
    report_type(pointer, value, words);
    return std::nullopt;
  }
  const auto& text = value.get_ref<const std::string&>();
  if (is_usable(text, rule.kind)) return resolved(pointer, text, rule);
  problems_.add(pointer, shown_value(value) + " cannot be used", words);
  return std::nullopt;
}

std::string RecipeReader::resolved(const std::string& pointer, const std::string& text, const TextRule& rule) const {
  if (std::find(rule.words.begin(), rule.words.end(), text) != rule.words.end()) return text;
  // A path typed on the command line is relative to where it was typed.
  const auto folder = document_.is_override(pointer) ? std::filesystem::path() : folder_;
  switch (rule.kind) {
    case TextKind::path:
      return absolute_path(text, folder);
    case TextKind::path_or_name:
      return text.find('/') != std::string::npos || text.ends_with(".json") ? absolute_path(text, folder) : text;
    case TextKind::checkpoint_source:
      return text.starts_with("hf:") ? "hf:" + absolute_path(text.substr(3), folder) : absolute_path(text, folder);
    case TextKind::plain:
    case TextKind::schema_link:
    case TextKind::name:
    case TextKind::working_path:
      break;
  }
  return text;
}

void RecipeReader::text(const Key& key, std::string& field, const TextRule& rule) {
  const Json* value = take(key, must_be(text_words(rule)));
  if (value == nullptr) return;
  if (auto text = checked_text(pointer_to(key), *value, rule)) field = std::move(*text);
}

void RecipeReader::nullable_text(const Key& key, std::optional<std::string>& field, const TextRule& rule) {
  const Json* value = take(key, must_be(text_words(rule)));
  if (value == nullptr) return;
  field = value->is_null() ? std::nullopt : checked_text(pointer_to(key), *value, rule);
}

void RecipeReader::tokenizer(const Key& key, TokenizerRecipe& field) {
  const auto rule = must_be(tokenizer_words());
  const Json* value = take(key, rule);
  if (value == nullptr) return;
  const auto pointer = pointer_to(key);
  if (value->is_object()) {
    tokenizer_file(pointer, *value, field);
  } else if (!value->is_string()) {
    report_type(pointer, *value, rule);
  } else if (*value == "bytes") {
    field = {};
  } else {
    constexpr std::array<std::string_view, 1> words = {"bytes"};
    problems_.add(pointer, shown_value(*value) + " is unknown", rule, word_in(*value, words));
  }
}

void RecipeReader::tokenizer_file(const std::string& pointer, const Json& value, TokenizerRecipe& field) {
  Level level{&value, pointer};
  // An object must have exactly one of the two keys.
  std::size_t given = 0;
  for (std::size_t i = 0; i < tokenizer_file_keys.size(); ++i) {
    const auto name = tokenizer_file_keys[i];
    level.visited.push_back(name);
    const auto file = value.find(std::string(name));
    if (file == value.end()) continue;
    ++given;
    field.kind = i == 0 ? TokenizerKind::sentencepiece : TokenizerKind::huggingface;
    field.file = checked_text(append_key(pointer, name), *file, {TextKind::path}).value_or("");
  }
  report_unknown(level);
  // An unknown key has been reported already.
  const bool only_unknown = given == 0 && !value.empty();
  if (given == 1 || only_unknown) return;
  problems_.add(pointer, given == 0 ? "is an empty object" : "names two tokenizers", must_be(tokenizer_words()));
}

void RecipeReader::balance(const Key& key, BalanceRecipe& field, IntegerRange range) {
  const auto rule = must_be(balance_rule_words());
  const Json* value = take(key, rule);
  if (value == nullptr) return;
  const auto pointer = pointer_to(key);
  if (value->is_array()) {
    field = {BalanceKind::list, {}};
    for (std::size_t i = 0; i < value->size(); ++i) {
      const auto entry =
          whole_number(append_key(pointer, std::to_string(i)), (*value)[i], range, must_be(range_words(range)));
      // Kept at its index even where it is invalid, so that later entries are reported at theirs.
      field.layers_per_stage.push_back(entry.value_or(0));
    }
  } else if (!value->is_string()) {
    report_type(pointer, *value, rule);
  } else {
    const auto found = std::find(balance_words.begin(), balance_words.end(), value->get_ref<const std::string&>());
    if (found != balance_words.end()) {
      field = {static_cast<BalanceKind>(found - balance_words.begin()), {}};
      return;
    }
    problems_.add(pointer, shown_value(*value) + " is unknown", rule, word_in(*value, balance_words));
  }
}

void RecipeReader::enter(const Json* value, std::string pointer, const std::string& rule) {
  // Within a section of the wrong type nothing more is reported.
  const auto outer = levels_.empty() ? State::given : levels_.back().state;
  Level level{value, std::move(pointer), outer == State::broken ? State::broken : State::absent};
  if (value != nullptr) {
    level.state = value->is_object() ? State::given : State::broken;
    if (level.state == State::broken) report_type(level.pointer, *value, rule);
  }
  levels_.push_back(std::move(level));
}

void RecipeReader::enter_section(const Key& key) {
  auto pointer = pointer_to(key);
  const auto rule = must_be("an object");
  enter(take(key, rule), std::move(pointer), rule);
}

bool RecipeReader::enter_optional_section(const Key& key, bool) {
  const auto rule = must_be("null or an object");
  const Json* value = take(key, rule);
  if (value == nullptr || value->is_null()) return false;
  enter(value, pointer_to(key), rule);
  return true;
}

std::size_t RecipeReader::enter_list(const Key& key, std::size_t) {
  const auto rule = must_be("a list of objects");
  const Json* value = take(key, rule);
  if (value != nullptr && !value->is_array()) {
    report_type(pointer_to(key), *value, rule);
    value = nullptr;
  }
  levels_.push_back({value, pointer_to(key)});
  return value == nullptr ? 0 : value->size();
}

void RecipeReader::enter_entry(std::size_t index) {
  const auto& list = levels_.back();
  enter(&(*list.value)[index], append_key(list.pointer, std::to_string(index)), must_be("an object with a path"));
}

void RecipeReader::leave_list() { levels_.pop_back(); }

void RecipeReader::leave_section() {
  const Level level = std::move(levels_.back());
  levels_.pop_back();
  if (level.state == State::given) report_unknown(level);
  if (level.required.empty()) return;
  std::string names;
  for (const auto name : level.required) names.append(names.empty() ? "" : ", ").append(name);
  problems_.add_missing(level.pointer, must_be("an object with " + names));
}

void RecipeReader::report_unknown(const Level& level) {
  for (const auto& [name, value] : level.value->get_ref<const Json::object_t&>()) {
    if (std::find(level.visited.begin(), level.visited.end(), name) != level.visited.end()) continue;
    const auto pointer = append_key(level.pointer, name);
    problems_.add_unknown(pointer, nearest_key(pointer));
  }
}

}  // namespace llmtrain

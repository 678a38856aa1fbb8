// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/recipe_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/printable.h"
#include "core/recipe/checkpoint_source.h"
#include "core/recipe/hints.h"
#include "core/recipe/keys/key_table.h"
#include "core/recipe/keys/memory_policy.h"
#include "core/recipe/pipeline_order.h"

namespace llmtrain {
namespace {

// The content of a string value read as JSON: users write "8" for 8, "true" for true, and .5 for 0.5.
Json unquoted(const Json& value) {
  if (!value.is_string()) return {};
  const auto& text = value.get_ref<const std::string&>();
  const std::string number = number_meant(text);
  return parse_json(number.empty() ? text : number).value;
}

// Why a string that was meant as a list or an object is neither, or empty: `--set` takes what is not JSON as a string.
std::string syntax_error_in(const Json& value) {
  if (!value.is_string()) return "";
  const auto& text = value.get_ref<const std::string&>();
  return text.starts_with('[') || text.starts_with('{') ? parse_json(text).error : "";
}

// 1e3 and 8.0 are whole numbers, as JSON Schema has it. Beyond 2^53 a double no longer holds every integer, so the one
// that was written may be another.
std::optional<std::int64_t> exact_integer(double number) {
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (!(std::abs(number) <= exact) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

// The whole number that a string holds, as a hint.
std::string whole_number_in(const Json& value, IntegerRange range) {
  const auto inner = unquoted(value);
  const auto whole = inner.is_number() ? exact_integer(inner.get<double>()) : std::nullopt;
  return whole && *whole >= range.minimum && *whole <= range.maximum ? std::to_string(*whole) : "";
}

bool contains(NumberRange range, double value) {
  const bool above = range.ends == RangeEnds::open_minimum ? value > range.minimum : value >= range.minimum;
  const bool below = range.ends == RangeEnds::open_maximum ? value < range.maximum : value <= range.maximum;
  return above && below;
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

bool is_usable(std::string_view text, TextKind kind) {
  if (kind == TextKind::plain) return true;
  if (text.empty() || has_control_character(text)) return false;
  if (kind == TextKind::name) {
    // A name becomes a folder: 200 leaves room within a file system's 255 bytes.
    return text.size() <= 200 && text != "." && text != ".." && text.find('/') == std::string_view::npos;
  }
  // PATH_MAX on Linux.
  return text.size() <= 4096 && !(kind == TextKind::checkpoint_source && text == huggingface_prefix);
}

// `path` as an absolute path: relative ones are resolved against `folder`, which is first made absolute and free of
// symbolic links, so that leading "../" can be removed. Never throws for a path that does not exist.
std::string absolute_path(const std::string& path, const std::filesystem::path& folder) {
  if (path.starts_with('/')) return path;
  const auto from = folder.empty() ? std::filesystem::path(".") : folder;
  std::error_code failed;
  auto result = std::filesystem::weakly_canonical(from, failed);
  if (failed || !result.is_absolute()) result = std::filesystem::absolute(from, failed);
  const std::filesystem::path relative(path);
  auto part = relative.begin();
  // Only leading dots: after a symbolic link ".." is not the folder that is written before it.
  for (; part != relative.end() && (*part == "." || *part == ".."); ++part) {
    if (*part == "..") result = result.parent_path();
  }
  for (; part != relative.end(); ++part) result /= *part;
  return result.string();
}

class RecipeReader final : public KeyVisitor {
 public:
  explicit RecipeReader(const WrittenValue::Source& source) : KeyVisitor(Defaults::fill), source_(source) {
    enter_object(&source.document.root, "", "an object with model, batch and training");
  }

  // Reports the unknown keys outside of all sections; must be called last.
  void finish() { leave(); }

 private:
  struct Level {
    const Json* json = nullptr;  // none where the section is absent or of the wrong type: its keys get their defaults
    std::string pointer;
    bool is_broken = false;  // of the wrong type, or within such a section: reported already
    std::vector<std::string_view> visited{};
    std::vector<std::string_view> required{};  // of an absent section
  };

  void value(const Key& key, const KeyValue& value) override {
    if (const Json* json = take(key, value.words)) value.read({*json, pointer_to(key), value.words, source_});
  }

  std::size_t enter(const Key& key, Section section, std::size_t) override {
    // In the order of Section.
    constexpr std::array<const char*, 3> kinds = {"an object", "null or an object", "a list of objects"};
    const std::string words = kinds[static_cast<std::size_t>(section)];
    const Json* json = take(key, words);
    if (section == Section::optional_object && (json == nullptr || json->is_null())) return 0;
    if (section != Section::list) {
      enter_object(json, pointer_to(key), words);
      return 1;
    }
    if (json != nullptr && !json->is_array()) {
      WrittenValue(*json, pointer_to(key), words, source_).refuse_type(value_meant(pointer_to(key), *json));
      json = nullptr;
    }
    levels_.push_back({json, pointer_to(key)});
    return json == nullptr ? 0 : json->size();
  }

  void enter_entry(std::size_t index) override {
    const auto& list = levels_.back();
    enter_object(&(*list.json)[index], append_key(list.pointer, std::to_string(index)), "an object with a path");
  }

  void leave() override {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    if (level.json != nullptr && level.json->is_object()) {
      skip_description(level);
      WrittenValue(*level.json, level.pointer, "", source_).refuse_unknown_keys(level.visited);
    }
    if (level.required.empty()) return;
    std::string names;
    for (const auto name : level.required) names.append(names.empty() ? "" : ", ").append(name);
    source_.problems.add_missing(level.pointer, "must be an object with " + names);
  }

  // JSON has no comments: every section may have one.
  void skip_description(Level& level) const {
    const std::string name(section_comment);
    level.visited.push_back(section_comment);
    const auto comment = level.json->find(name);
    if (comment != level.json->end() && !level.pointer.empty() && !comment->is_string())
      WrittenValue(*comment, append_key(level.pointer, name), "a text", source_).refuse_type();
  }

  void enter_object(const Json* json, std::string pointer, const std::string& words) {
    // Within a section of the wrong type nothing more is reported.
    Level level{json, std::move(pointer), !levels_.empty() && levels_.back().is_broken};
    if (json != nullptr && !json->is_object()) {
      WrittenValue(*json, level.pointer, words, source_).refuse_type(value_meant(level.pointer, *json));
      level.json = nullptr;
      level.is_broken = true;
    }
    levels_.push_back(std::move(level));
  }

  // Whether the section has another key from which this one follows. What model.from stands for is filled in before a
  // recipe is read, and missing where that failed.
  static bool follows(const Json& section, const Key& key) {
    return std::ranges::any_of(stand_ins(key.presence), [&](std::string_view name) {
      const auto other = section.find(std::string(name));
      return name != "from" && other != section.end() && !other->is_null();
    });
  }

  std::string pointer_to(const Key& key) const { return append_key(levels_.back().pointer, key.name); }

  // The key's value, or null without one; a required key that is missing is reported.
  const Json* take(const Key& key, const std::string& words) {
    auto& level = levels_.back();
    level.visited.push_back(key.name);
    if (level.json != nullptr) {
      const auto found = level.json->find(std::string(key.name));
      const bool is_replaced = follows(*level.json, key);
      // A file's steps are taken back by null, as epochs are.
      if (found != level.json->end() && !(is_replaced && found->is_null())) return &*found;
      if (key.presence == Presence::optional || is_replaced) return nullptr;
      source_.problems.add_missing(pointer_to(key), "must be " + words);
    } else if (!level.is_broken && key.presence != Presence::optional) {
      // A missing section is one problem, reported when it is left, not one for each of its keys.
      level.required.push_back(key.name);
    }
    return nullptr;
  }

  const WrittenValue::Source source_;
  std::vector<Level> levels_;
};

}  // namespace

WrittenValue::WrittenValue(const Json& json, std::string pointer, const std::string& words, const Source& source)
    : json_(json), pointer_(std::move(pointer)), rule_("must be " + words), source_(source) {}

WrittenValue WrittenValue::child(const std::string& key, const Json& json, const std::string& words) const {
  return {json, append_key(pointer_, key), words, source_};
}

void WrittenValue::refuse(const std::string& what, const std::string& hint) const {
  source_.problems.add(pointer_, what, rule_, hint);
}

void WrittenValue::refuse_type(const std::string& hint) const {
  if (const std::string error = syntax_error_in(json_); !error.empty())
    return refuse(shown_value(json_) + " is not JSON: " + error);
  const bool has_no_text = json_.is_null() || json_.is_structured();
  refuse((has_no_text ? "" : shown_value(json_) + " ") + "is " + std::string(kind_of(json_)), hint);
}

void WrittenValue::refuse_unknown_keys(Words known) const {
  for (const auto& [name, value] : json_.get_ref<const Json::object_t&>()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const auto pointer = append_key(pointer_, name);
    source_.problems.add_unknown(pointer, nearest_key(pointer));
  }
}

std::optional<std::int64_t> WrittenValue::whole_number(IntegerRange range) const {
  if (json_.is_number_float()) {
    const auto whole = exact_integer(json_.get<double>());
    if (whole && *whole >= range.minimum && *whole <= range.maximum) return whole;
    refuse(shown_value(json_) + (whole ? " is out of range" : " is not a whole number in 64 bits"));
    return std::nullopt;
  }
  if (!json_.is_number_integer()) {
    refuse_type(whole_number_in(json_, range));
    return std::nullopt;
  }
  // nlohmann stores positive integers as unsigned; one above int64 would wrap in the conversion.
  const bool beyond = json_.is_number_unsigned() &&
                      json_.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto number = beyond ? 0 : json_.get<std::int64_t>();
  if (!beyond && number >= range.minimum && number <= range.maximum) return number;
  refuse(shown_value(json_) + " is out of range");
  return std::nullopt;
}

std::optional<double> WrittenValue::number(NumberRange range) const {
  if (json_.is_number()) {
    if (contains(range, json_.get<double>())) return json_.get<double>();
    refuse(shown_value(json_) + " is out of range");
  } else {
    const auto inner = unquoted(json_);
    refuse_type(inner.is_number() && contains(range, inner.get<double>()) ? shown_value(inner) : "");
  }
  return std::nullopt;
}

std::optional<bool> WrittenValue::boolean() const {
  if (json_.is_boolean()) return json_.get<bool>();
  const auto inner = unquoted(json_);
  refuse_type(inner.is_boolean() ? shown_value(inner) : "");
  return std::nullopt;
}

std::optional<std::size_t> WrittenValue::word(Words words) const {
  if (!json_.is_string()) {
    refuse_type();
    return std::nullopt;
  }
  const auto& written = json_.get_ref<const std::string&>();
  const auto found = std::find(words.begin(), words.end(), written);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  std::string meant = value_meant(pointer_, json_);
  if (const auto near = nearest_word(written, words); meant.empty() && !near.empty())
    meant = '"' + std::string(near) + '"';
  refuse(shown_value(json_) + " is unknown", meant);
  return std::nullopt;
}

std::optional<std::string> WrittenValue::text(const TextRule& rule) const {
  if (!json_.is_string()) {
    refuse_type();
    return std::nullopt;
  }
  const auto& written = json_.get_ref<const std::string&>();
  if (!is_usable(written, rule.kind)) {
    refuse(shown_value(json_) + " cannot be used");
    return std::nullopt;
  }
  std::string path = resolved(written, rule);
  if (is_utf8(path)) return path;
  // The folder's: what is written has been checked. JSON, in which runs are described, holds no other names.
  refuse(shown_value(json_) + " lies in a folder whose name is not UTF-8; rename the folder");
  return std::nullopt;
}

std::string WrittenValue::resolved(const std::string& text, const TextRule& rule) const {
  if (std::find(rule.words.begin(), rule.words.end(), text) != rule.words.end()) return text;
  // A path typed on the command line is relative to where it was typed.
  const auto folder = source_.document.is_override(pointer_) ? std::filesystem::path() : source_.folder;
  switch (rule.kind) {
    case TextKind::path:
      return absolute_path(text, folder);
    case TextKind::path_or_name:
      return text.find('/') != std::string::npos || text.ends_with(".json") ? absolute_path(text, folder) : text;
    case TextKind::checkpoint_source:
      if (const auto huggingface = huggingface_folder(text))
        return std::string(huggingface_prefix) + absolute_path(*huggingface, folder);
      return absolute_path(text, folder);
    case TextKind::plain:
    case TextKind::name:
    case TextKind::working_path:
      break;
  }
  return text;
}

Recipe read_keys(const Document& document, const std::filesystem::path& folder, Problems& problems) {
  RecipeReader reader({document, folder, problems});
  Recipe recipe;
  describe_keys(reader, recipe);
  reader.finish();
  if (!document.holds("/pipeline/schedule") && !document.holds("/pipeline/loops")) set_default_order(recipe);
  set_policy_defaults(recipe, [&](std::string_view pointer) { return document.holds(pointer); });
  return recipe;
}

}  // namespace llmtrain

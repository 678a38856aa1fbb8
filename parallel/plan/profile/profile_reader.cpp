// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/profile/profile_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/recipe/enum_words.h"
#include "core/recipe/hints.h"

namespace llmtrain {
namespace {

std::string range_rule(ProfileRange range) {
  return "must be a number from " + shown_value(Json(range.minimum)) + " to " + shown_value(Json(range.maximum));
}

}  // namespace

ProfileReader::ProfileReader(const Json& root, const std::string& file, std::string kind, Keys keys)
    : file_(file), kind_(std::move(kind)), keys_(keys) {
  levels_.push_back({&root, "", {}});
  if (!root.is_object()) throw Error(ExitCode::bad_recipe, file_ + ": must be an object, " + kind_);
}

void ProfileReader::text(std::string_view name, std::string& field) {
  if (const Json* value = take(name, "a string", "must be a string", &Json::is_string))
    field = value->get<std::string>();
}

void ProfileReader::kind(std::string_view name, DeviceKind& field) {
  // A profile is of a device that was measured: not "auto".
  const auto is_kind = [](const Json& value) {
    return value == word_of(DeviceKind::cpu) || value == word_of(DeviceKind::cuda);
  };
  if (const Json* value = take(name, "\"cpu\" or \"cuda\"", "must be \"cpu\" or \"cuda\"", is_kind))
    field = value_of_word<DeviceKind>(device_words, value->get<std::string>()).value();
}

void ProfileReader::number(std::string_view name, double& field, ProfileRange range) {
  const auto is_in = [&](const Json& value) { return is_number_in(range, value); };
  if (const Json* value = take(name, "a number", range_rule(range), is_in)) field = value->get<double>();
}

void ProfileReader::integer(std::string_view name, std::int64_t& field, ProfileRange range) {
  double number_read = static_cast<double>(field);
  // Through a double, so that 8 and 8.0 both pass; a problem leaves the field as it was.
  number(name, number_read, range);
  if (number_read != std::floor(number_read)) return wrong(name, Json(number_read), "must be a whole number");
  field = static_cast<std::int64_t>(number_read);
}

void ProfileReader::boolean(std::string_view name, bool& field) {
  if (const Json* value = take(name, "true or false", "must be true or false", &Json::is_boolean))
    field = value->get<bool>();
}

void ProfileReader::number_or_none(std::string_view name, std::optional<double>& field, ProfileRange range) {
  const auto is_known = [&](const Json& value) { return value.is_null() || is_number_in(range, value); };
  const Json* value = take(name, "a number, or null if it is unknown,", range_rule(range), is_known);
  if (value != nullptr && !value->is_null()) field = value->get<double>();
}

void ProfileReader::sources(std::string_view name, std::map<std::string, std::string>& field) {
  const std::string rule = "must be an object of strings";
  const Json* value = take(name, "an object that states the origin of each section", rule, &Json::is_object);
  if (value == nullptr) return;
  for (const auto& [key, text] : value->items()) {
    if (!text.is_string()) return wrong(name, text, rule);
    field[key] = text.get<std::string>();
  }
}

void ProfileReader::tables(std::string_view name, std::vector<CollectiveTable>& field) {
  const Json* value = take(name, "a list of measured tables, which may be empty,", "must be a list", &Json::is_array);
  if (value == nullptr) return;
  const std::string pointer = append_key(levels_.back().pointer, name);
  for (std::size_t index = 0; index < value->size(); ++index) {
    CollectiveTable table;
    if (read_table((*value)[index], pointer + '/' + std::to_string(index), table)) field.push_back(std::move(table));
  }
}

void ProfileReader::attention_by_device(std::string_view name, std::map<std::string, AttentionProfile>& field) {
  section(name, [&] {
    for (const auto& [device, rates] : levels_.back().value->items()) {
      AttentionProfile& read = field[device];
      // A device with one rate only would divide by zero in the other direction.
      const Keys outside = std::exchange(keys_, Keys::required);
      section(device, [&] { visit_attention(*this, read); });
      keys_ = outside;
    }
  });
}

void ProfileReader::require_sources() {
  const Json& root = *levels_.front().value;
  const Json sources = root.value("sources", Json::object());
  for (const auto& [key, value] : root.items()) {
    const bool has_source = !value.is_object() || key == "sources" || sources.contains(key);
    if (!has_source) problem("/" + key, "has no source; add \"" + key + "\" to \"sources\"");
  }
}

void ProfileReader::finish() {
  leave();
  if (!problems_.empty()) throw Error(ExitCode::bad_recipe, problems_);
}

bool ProfileReader::is_number_in(ProfileRange range, const Json& value) {
  return value.is_number() && value.get<double>() >= range.minimum && value.get<double>() <= range.maximum;
}

const Json* ProfileReader::find(std::string_view name, const std::string& what) {
  Level& level = levels_.back();
  // Remembered to find unknown keys in leave().
  level.names.push_back(name);
  const auto found = level.value->find(std::string(name));
  if (found != level.value->end()) return &*found;
  if (keys_ == Keys::required)
    problem(append_key(level.pointer, name), "is missing; " + kind_ + " needs " + what + " here");
  return nullptr;
}

void ProfileReader::wrong(std::string_view name, const Json& value, const std::string& rule) {
  problem(append_key(levels_.back().pointer, name), shown_value(value) + ": " + rule);
}

void ProfileReader::problem(const std::string& pointer, const std::string& text) {
  if (!problems_.empty()) problems_ += '\n';
  problems_ += file_ + ": " + pointer + ": " + text;
}

void ProfileReader::leave() {
  const Level& level = levels_.back();
  // A misspelled optional key would otherwise be ignored silently.
  for (const auto& [key, value] : level.value->items()) {
    if (std::ranges::find(level.names, key) != level.names.end()) continue;
    const std::string_view near = nearest_word(key, level.names);
    problem(append_key(level.pointer, key),
            "is not a key of " + kind_ + (near.empty() ? "" : "; did you mean \"" + std::string(near) + "\"?"));
  }
  levels_.pop_back();
}

bool ProfileReader::read_table(const Json& value, const std::string& pointer, CollectiveTable& table) {
  const auto has = [&](const char* key) { return value.is_object() && value.contains(key); };
  if (!has("ranks") || !has("points") || value.size() != 2 || !value["ranks"].is_number_integer() ||
      value["ranks"].get<double>() < 2 || !value["points"].is_array() || value["points"].empty()) {
    problem(pointer, "must be {\"ranks\": 2 or more, \"points\": [[bytes, seconds], …]}");
    return false;
  }
  table.ranks = value["ranks"].get<std::int64_t>();
  for (const Json& point : value["points"]) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number() || !point[1].is_number()) {
      problem(pointer + "/points", shown_value(point) + ": must be [bytes, seconds]");
      return false;
    }
    const CollectivePoint next{point[0].get<double>(), point[1].get<double>()};
    const CollectivePoint last = table.points.empty() ? CollectivePoint{} : table.points.back();
    // Lookups interpolate in logarithms, which needs positive and ordered points.
    if (next.bytes <= last.bytes || next.seconds < last.seconds || next.seconds <= 0) {
      problem(pointer + "/points",
              shown_value(point) + ": bytes must increase from point to point, and seconds must not decrease");
      return false;
    }
    table.points.push_back(next);
  }
  return true;
}

Json parse_profile_text(std::string_view text, const std::string& file) {
  JsonText json = parse_json(text);
  if (!json.error.empty()) throw Error(ExitCode::bad_recipe, file + ": " + json.error);
  // Parsers keep one of two equal keys silently; which one is not obvious to the author of the file.
  if (!json.duplicates.empty()) {
    throw Error(ExitCode::bad_recipe, file + ": " + json.duplicates.front() + ": is given twice; take one out");
  }
  return std::move(json.value);
}

}  // namespace llmtrain

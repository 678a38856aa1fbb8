// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/profile_reader.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include "core/base/error.h"
#include "core/recipe/hints.h"

namespace llmtrain {
namespace {

std::string range_rule(ProfileRange range) {
  return "must be a number from " + shown_value(Json(range.minimum)) + " to " + shown_value(Json(range.maximum));
}

bool is_in(ProfileRange range, double value) { return value >= range.minimum && value <= range.maximum; }

}  // namespace

ProfileReader::ProfileReader(const Json& root, std::string file) : file_(std::move(file)) {
  levels_.push_back({&root, "", {}});
  if (!root.is_object()) throw Error(ExitCode::bad_recipe, file_ + ": must be an object, a cluster profile");
}

// Problems are collected instead of thrown one by one, so that a file can be corrected in one go.
void ProfileReader::problem(const std::string& pointer, const std::string& text) {
  if (!problems_.empty()) problems_ += '\n';
  problems_ += file_ + ": " + pointer + ": " + text;
}

const Json* ProfileReader::take(std::string_view name, std::string_view what) {
  Level& level = levels_.back();
  // Remembered to find unknown keys in leave().
  level.names.push_back(name);
  const auto found = level.value->find(std::string(name));
  if (found != level.value->end()) return &*found;
  problem(append_key(level.pointer, name), "is missing; a profile needs " + std::string(what) + " here");
  return nullptr;
}

void ProfileReader::wrong(std::string_view name, const Json& value, const std::string& rule) {
  problem(append_key(levels_.back().pointer, name), shown_value(value) + ": " + rule);
}

void ProfileReader::text(std::string_view name, std::string& field) {
  const Json* value = take(name, "a string");
  if (value == nullptr) return;
  if (!value->is_string()) return wrong(name, *value, "must be a string");
  field = value->get<std::string>();
}

void ProfileReader::kind(std::string_view name, DeviceKind& field) {
  const Json* value = take(name, "\"cpu\" or \"cuda\"");
  if (value == nullptr) return;
  if (*value != "cpu" && *value != "cuda") return wrong(name, *value, "must be \"cpu\" or \"cuda\"");
  field = *value == "cpu" ? DeviceKind::cpu : DeviceKind::cuda;
}

void ProfileReader::number(std::string_view name, double& field, ProfileRange range) {
  const Json* value = take(name, "a number");
  if (value == nullptr) return;
  if (!value->is_number() || !is_in(range, value->get<double>())) return wrong(name, *value, range_rule(range));
  field = value->get<double>();
}

void ProfileReader::integer(std::string_view name, std::int64_t& field, ProfileRange range) {
  double number_read = static_cast<double>(field);
  // Through a double, so that 8 and 8.0 both pass; a problem leaves the field as it was.
  number(name, number_read, range);
  if (number_read != std::floor(number_read)) return wrong(name, Json(number_read), "must be a whole number");
  field = static_cast<std::int64_t>(number_read);
}

void ProfileReader::price(std::string_view name, std::optional<double>& field) {
  const Json* value = take(name, "a number, or null if the price is unknown,");
  if (value == nullptr || value->is_null()) return;
  constexpr ProfileRange range{0, 1e6};
  if (!value->is_number() || !is_in(range, value->get<double>())) return wrong(name, *value, range_rule(range));
  field = value->get<double>();
}

void ProfileReader::sources(std::string_view name, std::map<std::string, std::string>& field) {
  const Json* value = take(name, "an object that states the origin of each section");
  if (value == nullptr) return;
  if (!value->is_object()) return wrong(name, *value, "must be an object of strings");
  for (const auto& [key, text] : value->items()) {
    if (!text.is_string()) return wrong(name, text, "must be an object of strings");
    field.emplace(key, text.get<std::string>());
  }
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

void ProfileReader::tables(std::string_view name, std::vector<CollectiveTable>& field) {
  const Json* value = take(name, "a list of measured tables, which may be empty,");
  if (value == nullptr) return;
  if (!value->is_array()) return wrong(name, *value, "must be a list");
  const std::string pointer = append_key(levels_.back().pointer, name);
  for (std::size_t index = 0; index < value->size(); ++index) {
    CollectiveTable table;
    if (read_table((*value)[index], pointer + '/' + std::to_string(index), table)) field.push_back(std::move(table));
  }
}

void ProfileReader::leave() {
  const Level& level = levels_.back();
  // A misspelled optional key would otherwise be ignored silently.
  for (const auto& [key, value] : level.value->items()) {
    bool known = false;
    for (const std::string_view name : level.names) known = known || name == key;
    if (known) continue;
    const std::string_view near = nearest_word(key, level.names);
    problem(append_key(level.pointer, key), "is not a key of a cluster profile" +
                                                (near.empty() ? "" : "; did you mean \"" + std::string(near) + "\"?"));
  }
  levels_.pop_back();
}

void ProfileReader::finish() {
  leave();
  if (!problems_.empty()) throw Error(ExitCode::bad_recipe, problems_);
}

}  // namespace llmtrain

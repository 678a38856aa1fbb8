// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/json/json_text.h"
#include "core/recipe/hints.h"
#include "parallel/plan/cost/cluster_profile.h"
#include "parallel/plan/cost/profile_keys.h"

namespace llmtrain {
namespace {

std::string range_rule(ProfileRange range) {
  return "must be a number from " + shown_value(Json(range.minimum)) + " to " + shown_value(Json(range.maximum));
}

// The visitor of visit_profile() that fills a profile from JSON. Problems are collected instead of thrown one by one,
// so that a file can be corrected in one go.
class ProfileReader {
 public:
  ProfileReader(const Json& root, const std::string& file) : file_(file) {
    levels_.push_back({&root, "", {}});
    if (!root.is_object()) throw Error(ExitCode::bad_recipe, file_ + ": must be an object, a cluster profile");
  }

  void text(std::string_view name, std::string& field) {
    if (const Json* value = take(name, "a string", "must be a string", &Json::is_string))
      field = value->get<std::string>();
  }

  void kind(std::string_view name, DeviceKind& field) {
    const auto is_kind = [](const Json& value) { return value == "cpu" || value == "cuda"; };
    if (const Json* value = take(name, "\"cpu\" or \"cuda\"", "must be \"cpu\" or \"cuda\"", is_kind))
      field = *value == "cpu" ? DeviceKind::cpu : DeviceKind::cuda;
  }

  void number(std::string_view name, double& field, ProfileRange range) {
    const auto is_in = [&](const Json& value) { return is_number_in(range, value); };
    if (const Json* value = take(name, "a number", range_rule(range), is_in)) field = value->get<double>();
  }

  void integer(std::string_view name, std::int64_t& field, ProfileRange range) {
    double number_read = static_cast<double>(field);
    // Through a double, so that 8 and 8.0 both pass; a problem leaves the field as it was.
    number(name, number_read, range);
    if (number_read != std::floor(number_read)) return wrong(name, Json(number_read), "must be a whole number");
    field = static_cast<std::int64_t>(number_read);
  }

  void price(std::string_view name, std::optional<double>& field) {
    constexpr ProfileRange range{0, 1e6};
    const auto is_price = [&](const Json& value) { return value.is_null() || is_number_in(range, value); };
    const Json* value = take(name, "a number, or null if the price is unknown,", range_rule(range), is_price);
    if (value != nullptr && !value->is_null()) field = value->get<double>();
  }

  void sources(std::string_view name, std::map<std::string, std::string>& field) {
    const std::string rule = "must be an object of strings";
    const Json* value = take(name, "an object that states the origin of each section", rule, &Json::is_object);
    if (value == nullptr) return;
    for (const auto& [key, text] : value->items()) {
      if (!text.is_string()) return wrong(name, text, rule);
      field.emplace(key, text.get<std::string>());
    }
  }

  void tables(std::string_view name, std::vector<CollectiveTable>& field) {
    const Json* value = take(name, "a list of measured tables, which may be empty,", "must be a list", &Json::is_array);
    if (value == nullptr) return;
    const std::string pointer = append_key(levels_.back().pointer, name);
    for (std::size_t index = 0; index < value->size(); ++index) {
      CollectiveTable table;
      if (read_table((*value)[index], pointer + '/' + std::to_string(index), table)) field.push_back(std::move(table));
    }
  }

  template <class Body>
  void section(std::string_view name, Body body) {
    const Json* value = take(name, "an object", "must be an object", &Json::is_object);
    if (value == nullptr) return;
    levels_.push_back({value, append_key(levels_.back().pointer, name), {}});
    body();
    leave();
  }

  // Call after the last key: reports unknown ones. Throws Error(bad_recipe) if there was any problem.
  void finish() {
    leave();
    if (!problems_.empty()) throw Error(ExitCode::bad_recipe, problems_);
  }

 private:
  struct Level {
    const Json* value = nullptr;
    std::string pointer;
    std::vector<std::string_view> names;
  };

  static bool is_number_in(ProfileRange range, const Json& value) {
    return value.is_number() && value.get<double>() >= range.minimum && value.get<double>() <= range.maximum;
  }

  // The value of a key, or null if it is missing or wrong, which is a problem.
  template <class Check>
  const Json* take(std::string_view name, const std::string& what, const std::string& rule, Check is_right) {
    Level& level = levels_.back();
    // Remembered to find unknown keys in leave().
    level.names.push_back(name);
    const auto found = level.value->find(std::string(name));
    if (found == level.value->end()) {
      problem(append_key(level.pointer, name), "is missing; a profile needs " + what + " here");
      return nullptr;
    }
    if (std::invoke(is_right, *found)) return &*found;
    wrong(name, *found, rule);
    return nullptr;
  }

  void wrong(std::string_view name, const Json& value, const std::string& rule) {
    problem(append_key(levels_.back().pointer, name), shown_value(value) + ": " + rule);
  }

  void problem(const std::string& pointer, const std::string& text) {
    if (!problems_.empty()) problems_ += '\n';
    problems_ += file_ + ": " + pointer + ": " + text;
  }

  void leave() {
    const Level& level = levels_.back();
    // A misspelled optional key would otherwise be ignored silently.
    for (const auto& [key, value] : level.value->items()) {
      if (std::ranges::find(level.names, key) != level.names.end()) continue;
      const std::string_view near = nearest_word(key, level.names);
      problem(
          append_key(level.pointer, key),
          "is not a key of a cluster profile" + (near.empty() ? "" : "; did you mean \"" + std::string(near) + "\"?"));
    }
    levels_.pop_back();
  }

  bool read_table(const Json& value, const std::string& pointer, CollectiveTable& table) {
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

  const std::string& file_;
  std::vector<Level> levels_;
  std::string problems_;
};

// The visitor of visit_profile() that writes JSON.
class ProfileWriter {
 public:
  void text(const char* name, const std::string& field) { json_[name] = field; }
  void kind(const char* name, DeviceKind field) { json_[name] = field == DeviceKind::cpu ? "cpu" : "cuda"; }
  void number(const char* name, double field, ProfileRange) { json_[name] = field; }
  void integer(const char* name, std::int64_t field, ProfileRange) { json_[name] = field; }
  void sources(const char* name, const std::map<std::string, std::string>& field) { json_[name] = field; }
  void price(const char* name, const std::optional<double>& field) { json_[name] = field ? Json(*field) : Json(); }

  void tables(const char* name, const std::vector<CollectiveTable>& field) {
    Json& list = json_[name] = Json::array();
    for (const CollectiveTable& table : field) {
      Json points = Json::array();
      for (const CollectivePoint& point : table.points) points.push_back({point.bytes, point.seconds});
      list.push_back({{"ranks", table.ranks}, {"points", points}});
    }
  }

  template <class Body>
  void section(const char* name, Body body) {
    Json outer = std::exchange(json_, Json::object());
    body();
    outer[name] = std::move(json_);
    json_ = std::move(outer);
  }

  Json take() { return std::move(json_); }

 private:
  Json json_ = Json::object();  // of the innermost open section
};

}  // namespace

ClusterProfile parse_profile(std::string_view text, const std::string& file) {
  const JsonText json = parse_json(text);
  if (!json.error.empty()) throw Error(ExitCode::bad_recipe, file + ": " + json.error);
  // Parsers keep one of two equal keys silently; which one is not obvious to the author of the file.
  if (!json.duplicates.empty()) {
    throw Error(ExitCode::bad_recipe, file + ": " + json.duplicates.front() + ": is given twice; take one out");
  }
  ClusterProfile profile;
  ProfileReader reader(json.value, file);
  visit_profile(reader, profile);
  reader.finish();
  return profile;
}

nlohmann::ordered_json to_json(const ClusterProfile& profile) {
  ProfileWriter writer;
  // One visitor interface serves reading and writing, so it takes the profile by mutable reference.
  ClusterProfile copy = profile;
  visit_profile(writer, copy);
  return writer.take();
}

}  // namespace llmtrain

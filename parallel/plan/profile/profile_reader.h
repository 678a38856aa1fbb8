// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_text.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/profile/profile_keys.h"

namespace llmtrain {

// The visitor of visit_profile() and visit_program() that fills a profile or a program from JSON. Problems are
// collected instead of thrown one by one, so that a file can be corrected in one go.
class ProfileReader {
 public:
  // What a missing key means: a problem, or that the field keeps its value.
  enum class Keys { required, optional };

  // `kind`: "a cluster profile", for messages. The arguments must outlive the reader. Throws Error(bad_recipe) if the
  // root is not an object.
  ProfileReader(const Json& root, const std::string& file, std::string kind, Keys keys = Keys::required);

  void text(std::string_view name, std::string& field);
  void kind(std::string_view name, DeviceKind& field);
  void number(std::string_view name, double& field, ProfileRange range);
  void integer(std::string_view name, std::int64_t& field, ProfileRange range);
  void boolean(std::string_view name, bool& field);
  // Keeps its value where it is missing.
  void optional_number(std::string_view name, double& field, ProfileRange range) {
    if (levels_.back().value->contains(name)) return number(name, field, range);
    levels_.back().names.push_back(name);
  }
  // Stays as it is where it is missing.
  void optional_boolean(std::string_view name, bool& field) {
    if (levels_.back().value->contains(name)) return boolean(name, field);
    levels_.back().names.push_back(name);
  }
  void number_or_none(std::string_view name, std::optional<double>& field, ProfileRange range);
  void sources(std::string_view name, std::map<std::string, std::string>& field);
  void tables(std::string_view name, std::vector<CollectiveTable>& field);
  // Stays null where it is missing.
  void operators(std::string_view name, std::shared_ptr<const OperatorTables>& field);
  // An object of devices, each with both rates.
  void attention_by_device(std::string_view name, std::map<std::string, AttentionProfile>& field);

  // One of `words`, which are in the order of the enum's values.
  template <class Enum, std::size_t count>
  void choice(std::string_view name, Enum& field, const std::array<std::string_view, count>& words) {
    std::string rule = "must be";
    for (const std::string_view word : words) rule += (word == words[0] ? " \"" : " or \"") + std::string(word) + '"';
    const auto place = [&](const Json& value) { return std::ranges::find(words, value.get<std::string>()); };
    const auto is_word = [&](const Json& value) { return value.is_string() && place(value) != words.end(); };
    if (const Json* value = take(name, "a word", rule, is_word))
      field = static_cast<Enum>(place(*value) - words.begin());
  }

  template <class Body>
  void section(std::string_view name, Body body) {
    const Json* value = take(name, "an object", "must be an object", &Json::is_object);
    if (value == nullptr) return;
    levels_.push_back({value, append_key(levels_.back().pointer, name), {}});
    body();
    leave();
  }

  // Its keys keep their values where it is missing.
  template <class Body>
  void optional_section(std::string_view name, Body body) {
    if (levels_.back().value->contains(name)) return section(name, body);
    levels_.back().names.push_back(name);
  }

  // Every section of the root must have an entry in its "sources".
  void require_sources();

  // Call after the last key: reports unknown ones. Throws Error(bad_recipe) if there was any problem.
  void finish();

 private:
  struct Level {
    const Json* value = nullptr;
    std::string pointer;
    std::vector<std::string_view> names;
  };

  static bool is_number_in(ProfileRange range, const Json& value);

  // The value of a key, or null if it is missing or wrong; both are problems, unless keys are optional and it is
  // missing.
  template <class Check>
  const Json* take(std::string_view name, const std::string& what, const std::string& rule, Check is_right) {
    const Json* value = find(name, what);
    if (value == nullptr || std::invoke(is_right, *value)) return value;
    wrong(name, *value, rule);
    return nullptr;
  }

  const Json* find(std::string_view name, const std::string& what);
  void wrong(std::string_view name, const Json& value, const std::string& rule);
  void problem(const std::string& pointer, const std::string& text);
  void leave();
  // The first of `types` must be there.
  void tables_by_type(std::string_view name, std::span<const char* const> axes, std::span<const char* const> types,
                      TablesByType& field);
  std::vector<double> numbers(std::string_view name, std::size_t fewest, ProfileRange range);
  bool read_table(const Json& value, const std::string& pointer, CollectiveTable& table);

  const std::string& file_;
  std::string kind_;
  Keys keys_;
  std::vector<Level> levels_;
  std::string problems_;
};

// The root of a profile's or a program's file. Throws Error(bad_recipe) if it is not JSON or gives a key twice.
Json parse_profile_text(std::string_view text, const std::string& file);

// As parse_profile(), of JSON that is already there.
ClusterProfile profile_of(const Json& root, const std::string& file);

}  // namespace llmtrain

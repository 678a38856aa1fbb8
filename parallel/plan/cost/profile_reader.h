// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_text.h"
#include "parallel/plan/cost/cluster_profile.h"
#include "parallel/plan/cost/profile_keys.h"

namespace llmtrain {

// The visitor of visit_profile() that fills a profile from JSON and collects all problems.
class ProfileReader {
 public:
  ProfileReader(const Json& root, std::string file);

  void text(std::string_view name, std::string& field);
  void kind(std::string_view name, DeviceKind& field);
  void number(std::string_view name, double& field, ProfileRange range);
  void integer(std::string_view name, std::int64_t& field, ProfileRange range);
  void tables(std::string_view name, std::vector<CollectiveTable>& field);
  void price(std::string_view name, std::optional<double>& field);
  void sources(std::string_view name, std::map<std::string, std::string>& field);

  template <class Body>
  void section(std::string_view name, Body body) {
    const Json* value = take(name, "an object");
    if (value == nullptr) return;
    if (!value->is_object()) {
      wrong(name, *value, "must be an object");
      return;
    }
    levels_.push_back({value, append_key(levels_.back().pointer, name), {}});
    body();
    leave();
  }

  // Call after the last key: reports unknown ones. Throws Error(bad_recipe) if there was any problem.
  void finish();

 private:
  struct Level {
    const Json* value = nullptr;
    std::string pointer;
    std::vector<std::string_view> names;
  };

  const Json* take(std::string_view name, std::string_view what);
  void wrong(std::string_view name, const Json& value, const std::string& rule);
  void problem(const std::string& pointer, const std::string& text);
  void leave();
  bool read_table(const Json& value, const std::string& pointer, CollectiveTable& table);

  std::string file_;
  std::vector<Level> levels_;
  std::string problems_;
};

}  // namespace llmtrain

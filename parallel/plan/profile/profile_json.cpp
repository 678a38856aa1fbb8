// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json/json_text.h"
#include "core/recipe/enum_words.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/profile/profile_keys.h"
#include "parallel/plan/profile/profile_reader.h"

namespace llmtrain {
namespace {

// The visitor of visit_profile() that writes JSON.
class ProfileWriter {
 public:
  void text(const char* name, const std::string& field) { json_[name] = field; }
  void kind(const char* name, DeviceKind field) { json_[name] = word_of(field); }
  void number(const char* name, double field, ProfileRange) { json_[name] = field; }
  void optional_number(const char* name, double field, ProfileRange) {
    if (field != 0) json_[name] = field;
  }
  void optional_boolean(const char* name, bool field) {
    if (field) json_[name] = field;
  }
  void integer(const char* name, std::int64_t field, ProfileRange) { json_[name] = field; }
  void sources(const char* name, const std::map<std::string, std::string>& field) { json_[name] = field; }
  void number_or_none(const char* name, const std::optional<double>& field, ProfileRange) {
    json_[name] = number_or_null(field);
  }

  void tables(const char* name, const std::vector<CollectiveTable>& field) {
    Json& list = json_[name] = Json::array();
    for (const CollectiveTable& table : field) {
      Json points = Json::array();
      for (const CollectivePoint& point : table.points) points.push_back({point.bytes, point.seconds});
      list.push_back({{"ranks", table.ranks}, {"points", points}});
    }
  }

  void operators(const char* name, const std::shared_ptr<const OperatorTables>& field) {
    if (field) json_[name] = to_json(*field);
  }

  template <class Body>
  void section(const char* name, Body body) {
    Json outer = std::exchange(json_, Json::object());
    body();
    outer[name] = std::move(json_);
    json_ = std::move(outer);
  }

  // Left out where it states nothing.
  template <class Body>
  void optional_section(const char* name, Body body) {
    section(name, body);
    if (std::ranges::all_of(json_[name], [](const Json& value) { return value.is_null(); })) json_.erase(name);
  }

  Json take() { return std::move(json_); }

 private:
  Json json_ = Json::object();  // of the innermost open section
};

}  // namespace

ClusterProfile parse_profile(std::string_view text, const std::string& file) {
  return profile_of(parse_profile_text(text, file), file);
}

ClusterProfile profile_of(const Json& root, const std::string& file) {
  ClusterProfile profile;
  ProfileReader reader(root, file, "a cluster profile");
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

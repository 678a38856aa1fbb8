// SPDX-License-Identifier: Apache-2.0
// score_tool CSV CLUSTERS: prices every row of the published measurements and prints one JSON object per line. With
// --serve it then reads lines of overrides, {"profiles": {NAME: {POINTER: value}}, "constants": {NAME: value}}, and
// answers each with a list of predictions; scripts/score_planner --fit uses this.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/file.h"
#include "tests/parallel/plan/cost/published_rows.h"

namespace {

using llmtrain::ClusterProfile;
using llmtrain::CostConstants;
using nlohmann::json;

const std::map<std::string, double CostConstants::*>& constant_members() {
  static const std::map<std::string, double CostConstants::*> members = {
      {"elementwise", &CostConstants::elementwise},
      {"softmax_forward", &CostConstants::softmax_forward},
      {"softmax_backward", &CostConstants::softmax_backward},
      {"cross_entropy", &CostConstants::cross_entropy},
      {"cast", &CostConstants::cast},
      {"optimizer", &CostConstants::optimizer},
      {"sequence_regather", &CostConstants::sequence_regather},
      {"backward_host", &CostConstants::backward_host},
      {"blocking_transfer", &CostConstants::blocking_transfer},
  };
  return members;
}

class Scorer {
 public:
  Scorer(const std::string& csv, const std::string& clusters) : rows_(llmtrain::published::read_rows(csv)) {
    for (const auto& row : rows_) {
      if (!profiles_.contains(row.hardware)) {
        profiles_[row.hardware] = json::parse(llmtrain::read_file(clusters + "/" + row.hardware + ".json"));
      }
      plans_.emplace_back(row, 8);
    }
  }

  json predictions(const json& overrides) const {
    CostConstants constants;
    const json changed_constants = overrides.value("constants", json::object());
    const json changed_profiles = overrides.value("profiles", json::object());
    for (const auto& [name, value] : changed_constants.items()) {
      constants.*constant_members().at(name) = value;
    }
    std::map<std::string, ClusterProfile> profiles;
    for (const auto& [name, text] : profiles_) {
      json changed = text;
      const json changes = changed_profiles.value(name, json::object());
      for (const auto& [pointer, value] : changes.items()) {
        changed[json::json_pointer(pointer)] = value;
      }
      profiles.emplace(name, llmtrain::parse_profile(changed.dump(), name));
    }
    json list = json::array();
    for (std::size_t index = 0; index < rows_.size(); ++index) {
      const auto value = predict(rows_[index], plans_[index], profiles.at(rows_[index].hardware), constants);
      list.push_back(value ? json(*value) : json());
    }
    return list;
  }

  json describe(const json& predicted) const {
    json lines = json::array();
    for (std::size_t index = 0; index < rows_.size(); ++index) {
      const auto& row = rows_[index];
      lines.push_back({{"source", row.source},
                       {"hardware", row.hardware},
                       {"metric", row.metric},
                       {"value", row.value},
                       {"predicted", predicted[index]},
                       {"held_out", row.held_out},
                       {"note", row.note},
                       {"recipe", json::parse(row.recipe_text)}});
    }
    return lines;
  }

 private:
  std::vector<llmtrain::published::Row> rows_;
  std::vector<llmtrain::published::Plan> plans_;
  std::map<std::string, json> profiles_;
};

int run(int count, char** arguments) {
  if (count < 3) {
    std::cerr << "usage: score_tool CSV CLUSTERS [--serve]\n";
    return 2;
  }
  const Scorer scorer(arguments[1], arguments[2]);
  for (const json& line : scorer.describe(scorer.predictions(json::object()))) std::cout << line << '\n';
  std::cout << std::flush;
  if (count < 4) return 0;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << scorer.predictions(json::parse(line)) << std::endl;
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const std::exception& error) {
    std::cerr << "score_tool: " << error.what() << '\n';
    return 1;
  }
}

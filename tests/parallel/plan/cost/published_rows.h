// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "parallel/layout/layout.h"
#include "parallel/plan/profile/cluster_profile.h"

namespace llmtrain::published {

// One measured value of a file in tests/published.
struct Row {
  std::string source;
  std::string hardware;  // a cluster profile
  std::string program;   // of recipes/programs
  std::string metric;
  std::string unit;
  std::string note;
  std::string inexact;         // what of the row no recipe states; empty where one states all
  std::string inexact_memory;  // likewise of its memory alone, where its time is counted
  double value = 0;
  std::vector<std::string> recipe_texts;  // of which the row is the mean
  nlohmann::json profile_set;             // keys of the profile that the source states otherwise
  bool held_out = false;                  // every third row per source and metric: not used in the fit
};

std::vector<Row> read_rows(const std::filesystem::path& csv);

// Changes of fitted values: {"profiles": {NAME: {POINTER: value}}, "program": {SECTION: {KEY: value}}}, the latter of
// what every program has unless its file states it.
using Changes = nlohmann::json;

// The profiles and programs of a folder of recipes.
class Shelf {
 public:
  explicit Shelf(std::filesystem::path recipes) : recipes_(std::move(recipes)) {}

  // What `llmtrain plan` prices the row's recipes with.
  ClusterProfile profile_of(const Row& row, const Changes& changes = Changes::object()) const;

 private:
  std::filesystem::path recipes_;
};

// The layouts of a row's recipes, which do not depend on what they are priced with.
std::vector<std::shared_ptr<const Layout>> layouts_of(const Row& row, const ClusterProfile& profile);

// The memory of the fullest rank, in the mean of a row's recipes, relative to the device's: above 1 where the plan
// needs more than there is.
double memory_share(const std::vector<std::shared_ptr<const Layout>>& layouts, const ClusterProfile& profile);

// The plan's prediction in the row's unit; none for parts of the memory, which the tests of the memory model cover.
std::optional<double> predict(const Row& row, const std::vector<std::shared_ptr<const Layout>>& layouts,
                              const ClusterProfile& profile);

}  // namespace llmtrain::published

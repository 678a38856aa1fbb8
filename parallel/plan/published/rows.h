// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "parallel/layout/layout.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain::published {

// One measured value of a file in recipes/published.
struct Row {
  std::string name;  // that selects it on a command line; empty of what is no speed, or of more than one recipe
  std::string source;
  std::string hardware;  // a cluster profile
  std::string program;   // of recipes/programs
  std::string metric;
  std::string unit;
  std::string note;
  std::string inexact;         // what of the row no recipe states; empty where one states all
  bool is_allocated = false;   // of memory: what the framework's allocator states, not the device
  bool is_of_first = false;    // of memory: that of the first rank, not of the fullest
  std::string inexact_memory;  // likewise of its memory alone, where its time is counted
  double value = 0;
  std::int64_t devices = 0;
  std::vector<std::string> recipe_texts;  // of which the row is the mean
  nlohmann::json profile_set;             // keys of the profile that the source states otherwise
  bool held_out = false;                  // every third row per source and metric: not used in the fit
};

// Throws Error as read_columns() does, and bad_data with the line's number for a value that is none.
std::vector<Row> read_rows(const std::filesystem::path& csv);

// The rows with a name of all files of a folder, by file, in their order. Throws Error as read_rows() does, and
// missing_input where the folder has no such file.
std::vector<Row> named_rows(const std::filesystem::path& folder);

// The one of this name. Throws Error(bad_recipe) where there is none, with the nearest names.
Row row_named(const std::string& name, const std::vector<Row>& rows);

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

// What plans of a row's recipes predict, in the row's unit; none for parts of the memory, which the tests of the memory
// model cover.
std::optional<double> value_of(const Row& row, const std::vector<PlanReport>& reports);

// Tokens per second per device that a named row's run reached, by the plan of its recipe where the row counts samples,
// steps or FLOPs.
double measured_speed(const Row& row, const PlanReport& report);

// The plan's prediction in the row's unit; none for parts of the memory, which the tests of the memory model cover.
std::optional<double> predict(const Row& row, const std::vector<std::shared_ptr<const Layout>>& layouts,
                              const ClusterProfile& profile);

}  // namespace llmtrain::published

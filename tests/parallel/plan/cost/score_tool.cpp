// SPDX-License-Identifier: Apache-2.0
// score_tool RECIPES CSV [CSV…]: plans every row of the published measurements, with the profiles and programs of the
// folder RECIPES, and prints one JSON object per line, with --as=PROGRAM as if all ran that program. With --serve it
// then prints the fitted values that all programs have as {"facts": {SECTION: {KEY: value}}}, reads lines of changes
// (parallel/plan/published/rows.h) and answers each with a list of predictions; scripts/score_planner --fit uses this.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "parallel/plan/published/rows.h"

namespace {

using nlohmann::json;
using namespace llmtrain;

class Scorer {
 public:
  Scorer(const std::string& recipes, const std::vector<std::string>& files, const std::string& program)
      : shelf_(recipes) {
    for (const std::string& csv : files)
      for (published::Row& row : published::read_rows(csv)) rows_.push_back(std::move(row));
    if (!program.empty())
      for (published::Row& row : rows_) row.program = program;
    for (const published::Row& row : rows_) layouts_.push_back(published::layouts_of(row, shelf_.profile_of(row)));
  }

  json predictions(const published::Changes& changes) const {
    json list = json::array();
    for (std::size_t index = 0; index < rows_.size(); ++index) {
      const auto value = predict(rows_[index], layouts_[index], shelf_.profile_of(rows_[index], changes));
      list.push_back(value ? json(*value) : json());
    }
    return list;
  }

  // The fullest rank's memory relative to the device's, of each row.
  json memory_shares() const {
    json list = json::array();
    for (std::size_t index = 0; index < rows_.size(); ++index)
      list.push_back(published::memory_share(layouts_[index], shelf_.profile_of(rows_[index])));
    return list;
  }

  json describe(const json& predicted) const {
    const json shares = memory_shares();
    json lines = json::array();
    for (std::size_t index = 0; index < rows_.size(); ++index) {
      const auto& row = rows_[index];
      json recipes = json::array();
      for (const std::string& text : row.recipe_texts) recipes.push_back(json::parse(text));
      lines.push_back({{"source", row.source},
                       {"hardware", row.hardware},
                       {"profile_set", row.profile_set},
                       {"metric", row.metric},
                       {"unit", row.unit},
                       {"value", row.value},
                       {"predicted", predicted[index]},
                       {"memory_share", shares[index]},
                       {"held_out", row.held_out},
                       {"note", row.note},
                       {"inexact", row.inexact},
                       {"inexact_memory", row.inexact_memory},
                       {"recipes", recipes}});
    }
    return lines;
  }

 private:
  published::Shelf shelf_;
  std::vector<published::Row> rows_;
  std::vector<std::vector<std::shared_ptr<const Layout>>> layouts_;
};

json fitted_facts() {
  const Program program;
  return {{"traffic", {{"softmax_backward", program.traffic.softmax_backward}}},
          {"overlap", {{"sequence_regather", program.overlap.sequence_regather}}},
          {"host", {{"backward", program.host.backward}, {"blocking_transfer", program.host.blocking_transfer}}}};
}

int run(std::vector<std::string> arguments) {
  const bool serves = !arguments.empty() && arguments.back() == "--serve";
  if (serves) arguments.pop_back();
  const std::string as = "--as=";
  std::string program;
  if (!arguments.empty() && arguments.back().starts_with(as)) {
    program = arguments.back().substr(as.size());
    arguments.pop_back();
  }
  if (arguments.size() < 2) {
    std::cerr << "usage: score_tool RECIPES CSV [CSV…] [--as=PROGRAM] [--serve]\n";
    return 2;
  }
  const Scorer scorer(arguments[0], {arguments.begin() + 1, arguments.end()}, program);
  for (const json& line : scorer.describe(scorer.predictions(json::object()))) std::cout << line << '\n';
  std::cout << std::flush;
  if (!serves) return 0;
  std::cout << json{{"facts", fitted_facts()}} << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << scorer.predictions(json::parse(line)) << std::endl;
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::cerr << "score_tool: " << error.what() << '\n';
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/plan/cost/published_rows.h"

#include <map>
#include <stdexcept>
#include <utility>

#include "core/base/file.h"
#include "core/recipe/recipe_io.h"
#include "parallel/plan/planner/planner.h"
#include "tests/parallel/plan/cost/published_recipes.h"

namespace llmtrain::published {
namespace {

using nlohmann::json;

double weight_traffic_gibibytes(const PlanReport& report) {
  double bytes = 0;
  for (const CommunicationEntry& entry : report.communication)
    if (entry.purpose == Purpose::data_parallel) bytes += entry.bytes_per_rank_per_step;
  return bytes / (1024.0 * 1024 * 1024);
}

// "device.memory_bandwidth" as a JSON pointer.
json::json_pointer pointer_of(const std::string& key) {
  std::string pointer = "/" + key;
  for (char& character : pointer)
    if (character == '.') character = '/';
  return json::json_pointer(pointer);
}

// The base of every program: the header's values with those that a fit tries.
Program changed_base(const Changes& changes) {
  json text = changes.value("program", json::object());
  if (text.empty()) return {};
  json sources = json::object();
  for (const auto& [section, keys] : text.items()) sources[section] = "tried by a fit";
  text["sources"] = sources;
  return parse_program(text.dump(), "changes");
}

// The mean over a row's recipes of a value of their reports.
template <class Value>
double mean(const std::vector<PlanReport>& reports, Value value) {
  double sum = 0;
  for (const PlanReport& report : reports) sum += value(report);
  return sum / static_cast<double>(reports.size());
}

}  // namespace

std::vector<Row> read_rows(const std::filesystem::path& csv) {
  std::map<std::string, int> counts;
  std::vector<Row> rows;
  for (const Columns& columns : read_columns(csv)) {
    Row row;
    row.source = columns.at("source");
    row.hardware = columns.at("hardware");
    row.program = columns.at("program");
    row.metric = columns.at("metric");
    row.unit = columns.at("unit");
    row.note = columns.at("note");
    row.inexact = text_of(columns, "inexact");
    row.inexact_memory = text_of(columns, "inexact_memory");
    row.value = std::stod(columns.at("value"));
    row.recipe_texts = recipes_of(columns);
    const std::string set = text_of(columns, "profile_set");
    row.profile_set = set.empty() ? json::object() : json::parse(set);
    row.held_out = counts[row.source + row.metric]++ % 3 == 2;
    rows.push_back(row);
  }
  return rows;
}

ClusterProfile Shelf::profile_of(const Row& row, const Changes& changes) const {
  json text = json::parse(read_file(recipes_ / "clusters" / (row.hardware + ".json")));
  const json tried = changes.value("profiles", json::object()).value(row.hardware, json::object());
  for (const auto& [pointer, value] : tried.items()) text[json::json_pointer(pointer)] = value;
  for (const auto& [key, value] : row.profile_set.items()) text[pointer_of(key)] = value;
  ClusterProfile profile = parse_profile(text.dump(), row.hardware);
  profile.program = load_program(row.program, recipes_ / "programs", profile.device.kind, changed_base(changes));
  profile.accuracy = accuracy_of(profile, recipes_ / "scores");
  return profile;
}

std::vector<std::shared_ptr<const Layout>> layouts_of(const Row& row, const ClusterProfile& profile) {
  std::vector<std::shared_ptr<const Layout>> layouts;
  for (const std::string& text : row.recipe_texts)
    layouts.push_back(lay_out(parse_recipe(text, row.source, "."), profile));
  return layouts;
}

double memory_share(const std::vector<std::shared_ptr<const Layout>>& layouts, const ClusterProfile& profile) {
  std::vector<PlanReport> reports;
  for (const auto& layout : layouts) reports.push_back(make_plan(layout, profile).report);
  return mean(reports, [](const PlanReport& report) { return fullest_rank(report).peak_bytes; }) /
         profile.device.memory_bytes;
}

std::optional<double> predict(const Row& row, const std::vector<std::shared_ptr<const Layout>>& layouts,
                              const ClusterProfile& profile) {
  if (row.metric == "activations" || row.metric == "model_states") return std::nullopt;
  std::vector<PlanReport> reports;
  for (const auto& layout : layouts) reports.push_back(make_plan(layout, profile).report);
  const PlanReport& first = reports.front();
  if (row.metric == "data_parallel_communication") return weight_traffic_gibibytes(first);
  if (row.metric == "bubble_fraction") return first.step.bubble_fraction;
  if (row.metric == "peak_memory") {
    const double unit = row.unit == "GiB" ? 1024.0 * 1024 * 1024 : 1e9;
    return mean(reports, [](const PlanReport& report) { return fullest_rank(report).peak_bytes; }) / unit;
  }
  const double seconds = mean(reports, [](const PlanReport& report) { return report.step.seconds; });
  if (row.metric == "step_seconds") return seconds;
  // The recipes of a row differ in nothing that a rate counts, so the first stands for them.
  const PlannedThroughput& rate = first.throughput;
  const double slower = first.step.seconds / seconds;
  if (row.metric == "samples_per_second") return slower * rate.samples_per_second;
  if (row.metric == "samples_per_second_per_device")
    return slower * rate.samples_per_second / static_cast<double>(first.mesh.world());
  if (row.metric == "tokens_per_second_per_device") return slower * rate.tokens_per_second_per_device;
  if (row.metric == "model_tflops_per_device") return slower * rate.model_tflops_per_device;
  throw std::runtime_error("unknown metric " + row.metric);
}

}  // namespace llmtrain::published

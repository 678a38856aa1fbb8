// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/published/rows.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/recipe/hints.h"
#include "core/recipe/recipe_io.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/published/row_recipes.h"

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

Row row_of(const Columns& columns) {
  Row row;
  row.name = text_of(columns, "name");
  row.source = columns.at("source");
  row.hardware = columns.at("hardware");
  row.program = columns.at("program");
  row.metric = columns.at("metric");
  row.unit = columns.at("unit");
  row.note = columns.at("note");
  row.inexact = text_of(columns, "inexact");
  row.inexact_memory = text_of(columns, "inexact_memory");
  const std::string memory_of = text_of(columns, "memory_of");
  row.is_of_first = memory_of == "first rank's allocator";
  row.is_allocated = memory_of == "allocator" || row.is_of_first;
  row.value = std::stod(columns.at("value"));
  row.devices = std::stoll(columns.at("devices"));
  row.recipe_texts = recipes_of(columns);
  const std::string set = text_of(columns, "profile_set");
  row.profile_set = set.empty() ? json::object() : json::parse(set);
  return row;
}

// "nanotron" of "nanotron-12".
std::string series_of(const std::string& name) {
  const std::size_t dash = name.rfind('-');
  const bool is_numbered = dash != std::string::npos && dash + 1 < name.size() &&
                           name.find_first_not_of("0123456789", dash + 1) == std::string::npos;
  return is_numbered ? name.substr(0, dash) : name;
}

}  // namespace

std::vector<Row> read_rows(const std::filesystem::path& csv) {
  std::map<std::string, int> counts;
  std::vector<Row> rows;
  for (const Columns& columns : read_columns(csv)) {
    try {
      rows.push_back(row_of(columns));
    } catch (const std::exception& error) {
      throw Error(ExitCode::bad_data, fmt::format("{}: line {}: {}", csv.string(), rows.size() + 2, error.what()));
    }
    Row& row = rows.back();
    row.held_out = counts[row.source + row.metric]++ % 3 == 2;
  }
  return rows;
}

std::vector<Row> named_rows(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed))
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  if (files.empty())
    throw Error(ExitCode::missing_input,
                folder.string() +
                    ": no measurements; llmtrain finds them from its build folder or installation, or in "
                    "recipes/published of the working directory");
  std::ranges::sort(files);
  std::vector<Row> named;
  for (const auto& file : files)
    for (Row& row : read_rows(file))
      if (!row.name.empty()) named.push_back(std::move(row));
  return named;
}

Row row_named(const std::string& name, const std::vector<Row>& rows) {
  const auto found = std::ranges::find(rows, name, &Row::name);
  if (found != rows.end()) return *found;
  // Those of a source differ in their number alone, which says nothing of what was meant.
  std::vector<std::string> sources, near;
  for (const Row& row : rows)
    if (std::ranges::count(sources, series_of(row.name)) == 0) sources.push_back(series_of(row.name));
  const std::vector<std::string_view> words(sources.begin(), sources.end());
  const std::string_view source = nearest_word(series_of(name), words);
  for (const Row& row : rows)
    if (series_of(row.name) == source) near.push_back(row.name);
  std::string meant;
  if (!near.empty()) meant = near.size() == 1 ? near.front() : near.front() + " to " + near.back();
  throw Error(ExitCode::bad_recipe,
              fmt::format("--explain published:{}: no measurement has this name{}; --explain published: lists them all",
                          printable(name), meant.empty() ? "" : "; the nearest are " + meant));
}

ClusterProfile Shelf::profile_of(const Row& row, const Changes& changes) const {
  const std::filesystem::path clusters = recipes_ / "clusters";
  json text = json::parse(read_file(clusters / (row.hardware + ".json")));
  std::string borrowed_from;
  if (text.contains("based_on")) {
    const ClusterProfile whole = load_profile(row.hardware, clusters);
    borrowed_from = whole.borrowed_from;
    text = to_json(whole);
  }
  const json tried = changes.value("profiles", json::object()).value(row.hardware, json::object());
  for (const auto& [pointer, value] : tried.items()) text[json::json_pointer(pointer)] = value;
  for (const auto& [key, value] : row.profile_set.items()) text[pointer_of(key)] = value;
  ClusterProfile profile = parse_profile(text.dump(), row.hardware);
  profile.borrowed_from = borrowed_from;
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

std::optional<double> value_of(const Row& row, const std::vector<PlanReport>& reports) {
  if (row.metric == "activations" || row.metric == "model_states") return std::nullopt;
  const PlanReport& first = reports.front();
  if (row.metric == "data_parallel_communication") return weight_traffic_gibibytes(first);
  if (row.metric == "bubble_fraction") return first.step.bubble_fraction;
  if (row.metric == "peak_memory") {
    const double unit = row.unit == "GiB" ? 1024.0 * 1024 * 1024 : 1e9;
    return mean(reports,
                [&](const PlanReport& report) {
                  const PlannedRank& rank = row.is_of_first ? report.ranks.front() : fullest_rank(report);
                  return row.is_allocated ? rank.allocated_bytes() : rank.peak_bytes;
                }) /
           unit;
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
  throw Error(ExitCode::bad_data, row.source + ": unknown metric " + row.metric);
}

double measured_speed(const Row& row, const PlanReport& report) {
  const double predicted = value_of(row, {report}).value();
  const double ratio = row.metric == "step_seconds" ? predicted / row.value : row.value / predicted;
  return ratio * report.throughput.tokens_per_second_per_device;
}

std::optional<double> predict(const Row& row, const std::vector<std::shared_ptr<const Layout>>& layouts,
                              const ClusterProfile& profile) {
  if (row.metric == "activations" || row.metric == "model_states") return std::nullopt;
  std::vector<PlanReport> reports;
  for (const auto& layout : layouts) reports.push_back(make_plan(layout, profile).report);
  return value_of(row, reports);
}

}  // namespace llmtrain::published

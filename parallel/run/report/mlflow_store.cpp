// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/report/mlflow_store.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/json/json_file.h"
#include "core/recipe/recipe_file.h"
#include "parallel/run/report/metrics_table.h"
#include "parallel/run/report/run_metrics.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// mlflow.entities.RunStatus
constexpr int status_running = 1, status_finished = 3;

// JSON's texts and numbers are YAML's, too.
std::string yaml(const std::vector<std::pair<std::string, nlohmann::json>>& entries) {
  std::string text;
  for (const auto& [key, value] : entries) text += key + ": " + value.dump(-1, ' ', true) + "\n";
  return text;
}

// RFC 8089, with all but unreserved letters escaped.
std::string file_uri(const fs::path& absolute) {
  std::string uri = "file://";
  for (const char letter : absolute.string()) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool is_plain = std::isalnum(byte) != 0 || std::string_view("-._~/").find(letter) != std::string_view::npos;
    uri += is_plain ? std::string(1, letter) : fmt::format("%{:02X}", byte);
  }
  return uri;
}

bool is_allowed(unsigned char letter) {
  return std::isalnum(letter) != 0 ||
         std::string_view("_-. :").find(static_cast<char>(letter)) != std::string_view::npos;
}

// One part of a name: MLflow allows these letters, and each name is a file.
std::string part_of_name(std::string_view part) {
  std::string name;
  for (const char letter : part) {
    const auto byte = static_cast<unsigned char>(letter);
    // A letter of several bytes is one underscore.
    constexpr unsigned char continuation = 0x80, continuation_mask = 0xC0;
    if ((byte & continuation_mask) == continuation) continue;
    name += is_allowed(byte) ? letter : '_';
  }
  // Neither "." nor "..", nor a file that is hidden.
  if (name.empty() || name.front() == '.') name.insert(name.begin(), '_');
  constexpr std::size_t longest = 200;  // of a file's name, with room for a number
  return name.substr(0, longest);
}

// MLflow's names of the columns, each another: a set's name may have slashes of its own.
std::vector<std::string> metric_names(const std::vector<std::string>& columns) {
  std::map<std::string, int> taken;
  std::vector<std::string> names;
  for (const std::string& column : columns) {
    const std::size_t slash = column.find('/');
    std::string name = part_of_name(std::string_view(column).substr(0, slash));
    if (slash != std::string::npos) name += "/" + part_of_name(std::string_view(column).substr(slash + 1));
    const int before = taken[name]++;
    names.push_back(before == 0 ? name : fmt::format("{}_{}", name, before + 1));
  }
  return names;
}

std::int64_t milliseconds_of_change(const fs::path& file) {
  constexpr std::int64_t in_a_second = 1000, nanoseconds = 1'000'000;
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) throw Error(ExitCode::bad_data, file.string() + ": its time cannot be read");
  return status.st_mtim.tv_sec * in_a_second + status.st_mtim.tv_nsec / nanoseconds;
}

// When the rows were written, in milliseconds: the last one when the file was changed, and before it all steps of a row
// took as long as its own. The first entry is the run's start.
std::vector<std::int64_t> times_of(const MetricsTable& table, std::int64_t end) {
  constexpr double in_a_second = 1000;
  const auto seconds = std::ranges::find(table.columns, "step_seconds") - table.columns.begin();
  std::vector<double> spans;
  std::int64_t step = 0;
  for (const MetricsTable::Row& row : table.rows) {
    double span = 0;
    for (const auto& [column, value] : row.values)
      if (static_cast<std::ptrdiff_t>(column) == seconds && std::isfinite(value))
        span = value * static_cast<double>(row.step - step);
    spans.push_back(span);
    step = row.step;
  }
  std::vector<std::int64_t> times(spans.size() + 1, end);
  double left = 0;
  for (std::size_t i = spans.size(); i-- > 0;) {
    left += spans[i];
    times[i] = end - static_cast<std::int64_t>(left * in_a_second);
  }
  return times;
}

void add_parameters(const nlohmann::json& value, const std::string& name, std::map<std::string, std::string>& all) {
  if (value.is_structured() && !value.empty()) {
    for (const auto& [key, member] : value.items())
      add_parameters(member, name.empty() ? part_of_name(key) : name + "." + part_of_name(key), all);
    return;
  }
  constexpr std::size_t longest = 6000;  // MLflow's own limit
  all[name] = (value.is_string() ? value.get<std::string>() : value.dump()).substr(0, longest);
}

// The folder of the experiment, by its name.
fs::path experiment_folder(const fs::path& store, const std::string& experiment, std::int64_t created) {
  const nlohmann::json quoted = experiment;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(store, failed)) {
    const fs::path meta = entry.path() / "meta.yaml";
    if (!path_exists(meta)) continue;
    const std::string text = "\n" + read_file(meta);
    for (const std::string& name : {experiment, quoted.dump(-1, ' ', true), "'" + experiment + "'"})
      if (text.find("\nname: " + name + "\n") != std::string::npos) return entry.path();
  }
  // MLflow's own ids are decimal numbers.
  const std::string id = std::to_string(stable_hash(experiment) % 1'000'000'000'000'000'000);
  fs::path folder = store / id;
  create_folder(folder);
  write_file_atomically(folder / "meta.yaml", yaml({{"artifact_location", file_uri(folder)},
                                                    {"creation_time", created},
                                                    {"experiment_id", id},
                                                    {"last_update_time", created},
                                                    {"lifecycle_stage", "active"},
                                                    {"name", experiment}}));
  return folder;
}

void write_metrics(const fs::path& folder, const MetricsTable& table, const std::vector<std::int64_t>& times) {
  std::vector<std::string> texts(table.columns.size());
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    for (const auto& [column, value] : table.rows[i].values)
      texts[column] += fmt::format("{} {} {}\n", times[i + 1], value, table.rows[i].step);
  const std::vector<std::string> names = metric_names(table.columns);
  for (std::size_t column = 0; column < names.size(); ++column) {
    const fs::path file = folder / names[column];
    create_folder(file.parent_path());
    write_file_atomically(file, texts[column]);
  }
}

}  // namespace

fs::path export_to_mlflow(const fs::path& run, const fs::path& store, const std::string& experiment) {
  require_trained_run(run);
  const fs::path metrics = metrics_file(run);
  const MetricsTable table = read_metrics_table(metrics);
  const std::string recipe_name = recipe_file(run).string();
  const auto recipe = parse_json<nlohmann::json>(read_text_file(recipe_name), recipe_name);
  const std::vector<std::int64_t> times = times_of(table, milliseconds_of_change(metrics));
  create_folder(store);
  // Links and ".." must not make two runs of one.
  const fs::path whole = fs::weakly_canonical(run), home = fs::weakly_canonical(store);
  const fs::path of_experiment = experiment_folder(home, experiment, times.front());
  constexpr std::size_t digits = 32;  // of MLflow's ids
  const std::string id = sha256_of(whole.string()).substr(0, digits);
  const fs::path folder = of_experiment / id;
  std::map<std::string, std::string> parameters;
  add_parameters(recipe, "", parameters);
  const std::string name = whole.filename().string();
  const std::int64_t last = table.rows.empty() ? 0 : table.rows.back().step;
  const bool is_finished = last >= recipe.value(nlohmann::json::json_pointer("/training/steps"), std::int64_t{0});
  for (const char* part : {"metrics", "params", "tags", "artifacts"}) create_folder(folder / part);
  for (const auto& [key, value] : parameters) write_file_atomically(folder / "params" / key, value);
  write_file_atomically(folder / "tags" / "mlflow.runName", name);
  write_file_atomically(folder / "tags" / "llmtrain.run", whole.string());
  write_metrics(folder / "metrics", table, times);
  // Last: with it the run is there.
  write_file_atomically(folder / "meta.yaml",
                        yaml({{"artifact_uri", file_uri(folder / "artifacts")},
                              {"end_time", is_finished ? nlohmann::json(times.back()) : nlohmann::json()},
                              {"entry_point_name", ""},
                              {"experiment_id", of_experiment.filename().string()},
                              {"lifecycle_stage", "active"},
                              {"run_id", id},
                              {"run_name", name},
                              {"run_uuid", id},
                              {"source_name", ""},
                              {"source_type", 4},
                              {"source_version", ""},
                              {"start_time", times.front()},
                              {"status", is_finished ? status_finished : status_running},
                              {"tags", nlohmann::json::array()},
                              {"user_id", ""}}));
  return folder;
}

}  // namespace llmtrain

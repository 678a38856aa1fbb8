// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/report/metrics_table.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/file.h"
#include "core/json/json_memory.h"

namespace llmtrain {
namespace {

// Columns stay in the order of the file.
using Json = nlohmann::ordered_json;

class TableReader {
 public:
  void read(std::string_view line) {
    const Json row = is_too_large_json(line) ? Json() : Json::parse(line, nullptr, false);
    // A run that is going on, or that was killed, may have left the last line incomplete.
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) return;
    const auto step = row["step"].get<std::int64_t>();
    if (table_.rows.empty() || table_.rows.back().step != step) table_.rows.push_back({step, {}});
    add(row, "");
  }

  MetricsTable take() { return std::move(table_); }

 private:
  void add(const Json& object, const std::string& prefix) {
    for (const auto& [name, value] : object.items()) {
      if (prefix.empty() && name == "step") continue;
      if (value.is_object()) {
        add(value, prefix + name + "/");
      } else if (value.is_number() || value.is_null()) {
        const double number = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
        table_.rows.back().values.emplace_back(column(prefix + name), number);
      }
    }
  }

  std::size_t column(const std::string& name) {
    const auto [found, is_new] = numbers_.emplace(name, table_.columns.size());
    if (is_new) table_.columns.push_back(name);
    return found->second;
  }

  MetricsTable table_;
  std::map<std::string, std::size_t> numbers_;  // of columns
};

// In quotation marks where it has what separates fields and lines.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + '"';
}

}  // namespace

MetricsTable read_metrics_table(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  TableReader reader;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    reader.read(line);
  }
  return reader.take();
}

std::string csv_text(const MetricsTable& table) {
  std::string text = "step";
  for (const std::string& column : table.columns) text += "," + csv_field(column);
  for (const MetricsTable::Row& row : table.rows) {
    std::vector<std::string> fields(table.columns.size());
    for (const auto& [column, value] : row.values)
      fields[column] = std::isnan(value) ? "NaN" : fmt::format("{}", value);
    text += fmt::format("\n{}", row.step);
    for (const std::string& field : fields) text += "," + field;
  }
  return text + "\n";
}

}  // namespace llmtrain

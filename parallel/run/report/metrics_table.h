// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace llmtrain {

// All numbers of a run's metrics.jsonl, whatever their names are: what other programs are given.
struct MetricsTable {
  struct Row {
    std::int64_t step = 0;
    // By column and in the order of the file; not a number where it was not finite.
    std::vector<std::pair<std::size_t, double>> values;
  };
  // Names, in the order in which they first appear; those of an object are joined by slashes: "loss",
  // "validation_losses/books".
  std::vector<std::string> columns;
  std::vector<Row> rows;  // by step; the numbers of a step's training and evaluation are one row
};

// Lines that are not rows are passed over, as read_metrics() does. Throws Error(missing_input) where the file does not
// exist, and Error(bad_data) where it cannot be read.
MetricsTable read_metrics_table(const std::filesystem::path& file);

// The table as RFC 4180 has it, with line feeds: a header "step,loss,…" and a line for each step, in which numbers are
// the shortest decimals that read back as the same, and "NaN" where they were not finite. A number that a step does not
// have is empty.
std::string csv_text(const MetricsTable& table);

}  // namespace llmtrain

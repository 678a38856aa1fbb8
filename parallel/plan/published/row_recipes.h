// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace llmtrain::published {

// One line of a file in recipes/published by the names of its columns.
using Columns = std::map<std::string, std::string>;

// The lines of a file. Throws Error: missing_input where it cannot be read, bad_data with the line's number where one
// has other columns than the first.
std::vector<Columns> read_columns(const std::filesystem::path& csv);

// The value of a column; empty where the file has no such column.
std::string text_of(const Columns& columns, const std::string& name);

// The recipes of a row, as JSON: one, or two of which the row is the mean (README.md, recompute "half").
std::vector<std::string> recipes_of(const Columns& columns);

}  // namespace llmtrain::published

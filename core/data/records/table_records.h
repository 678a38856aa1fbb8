// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "core/data/records/record_reader.h"

namespace llmtrain {

// Whether the name is that of a table in binary columns: Parquet (.parquet), or Arrow as `datasets` and Feather store
// it
// (.arrow, .feather).
bool is_column_table(const std::filesystem::path& file);

// The rows of such a table (core/data/tables/arrow_rows.h), read by a part that is loaded here, as it needs Arrow's
// libraries. Throws what open_input() throws of a file that does not exist, Error(missing_input) where the part cannot
// be loaded, and Error(bad_data) for a file that is no table.
std::unique_ptr<RecordReader> open_column_table(const std::filesystem::path& file);

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/array.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace llmtrain {

// The value at `row` of a column as JSON, as pyarrow's to_pylist() has it: lists, structs and maps (lists of pairs) of
// any depth, dictionaries by what they stand for. Dates, times and decimals become the text that Arrow shows. Null,
// too, are numbers that JSON has none of (NaN, infinities), and bytes that are not UTF-8, such as an image's.
nlohmann::ordered_json json_value(const arrow::Array& column, std::int64_t row);

}  // namespace llmtrain

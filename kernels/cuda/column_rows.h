// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels {

// A GPU sums the columns of a matrix from one partial sum of each column per piece of this many rows.
constexpr std::int64_t column_piece_rows = 128;

constexpr std::int64_t column_pieces(std::int64_t rows) { return (rows + column_piece_rows - 1) / column_piece_rows; }

}  // namespace llmtrain::kernels

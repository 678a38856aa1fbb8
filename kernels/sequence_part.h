// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace llmtrain::kernels {

// Consecutive positions begin … begin + length − 1 of a sequence.
struct PositionRun {
  std::int64_t begin = 0;
  std::int64_t length = 0;

  bool operator==(const PositionRun&) const = default;
};

// Which tokens of a sequence are at hand, where ranks share each sequence. Without runs: all of them.
struct SequencePart {
  std::int64_t whole = 0;         // tokens of the sequence; not read without runs
  std::vector<PositionRun> runs;  // ascending, apart from each other, within [0, whole)

  bool is_whole() const { return runs.empty(); }
  // The runs of `tokens` tokens. Throws Error(internal_error) where they are not as many or leave the sequence.
  std::vector<PositionRun> runs_of(std::int64_t tokens) const;
  // Tokens of the sequence of which `tokens` are at hand.
  std::int64_t whole_of(std::int64_t tokens) const { return is_whole() ? tokens : whole; }
};

// Rows that are consecutive both here and in the unsharded tensor.
struct RowRun {
  std::int64_t row = 0;
  std::int64_t whole_row = 0;
  std::int64_t length = 0;

  bool operator==(const RowRun&) const = default;
};

// Where rows first … first + count − 1 of [sequences · tokens, …] lie in [sequences · whole, …], in as few runs as can
// be. `tokens` of each sequence are at hand.
std::vector<RowRun> rows_in_whole(const SequencePart& part, std::int64_t tokens, std::int64_t first,
                                  std::int64_t count);

// Rows of a table [positions, …], one for each of `tokens` tokens: the table itself where they are all, else a copy.
at::Tensor rows_at(const at::Tensor& table, const SequencePart& part, std::int64_t tokens);
// Puts such rows, changed, back into their table; nothing to do where they are the table itself.
void store_rows_at(at::Tensor& table, const SequencePart& part, const at::Tensor& rows);

}  // namespace llmtrain::kernels

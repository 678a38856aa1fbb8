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

// Which tokens of a sequence this rank holds where ranks share each sequence. Without runs: all of them.
struct SequencePart {
  std::int64_t whole = 0;         // tokens of the sequence; not read without runs
  std::vector<PositionRun> runs;  // ascending, disjoint, within [0, whole)

  bool is_whole() const { return runs.empty(); }
  // The runs, which together hold `tokens` tokens. Throws Error(internal_error) where they do not, or exceed the
  // sequence.
  std::vector<PositionRun> runs_of(std::int64_t tokens) const;
  // Length of the whole sequence of which this rank holds `tokens`.
  std::int64_t whole_of(std::int64_t tokens) const { return is_whole() ? tokens : whole; }
};

// Rows that are consecutive both here and in the unsharded tensor.
struct RowRun {
  std::int64_t row = 0;
  std::int64_t whole_row = 0;
  std::int64_t length = 0;

  bool operator==(const RowRun&) const = default;
};

// Maps rows first … first + count − 1 of [sequences · tokens, …] to rows of [sequences · whole, …], in as few runs as
// possible. This rank holds `tokens` of each sequence.
std::vector<RowRun> rows_in_whole(const SequencePart& part, std::int64_t tokens, std::int64_t first,
                                  std::int64_t count);

// Which rows of an activation this rank holds: those from row `first` on of [sequences · tokens, …], which is a part of
// [sequences · whole, …].
struct RowsAtHand {
  const SequencePart& part;
  std::int64_t tokens = 0;  // of each sequence
  std::int64_t first = 0;

  std::vector<RowRun> runs(std::int64_t count) const { return rows_in_whole(part, tokens, first, count); }
};

// Rows of a table [positions, …], one per token held: the table itself where that is the whole sequence, else a copy.
at::Tensor rows_at(const at::Tensor& table, const SequencePart& part, std::int64_t tokens);
// Writes such rows back into their table after a change; does nothing where they are the table itself.
void store_rows_at(at::Tensor& table, const SequencePart& part, const at::Tensor& rows);

}  // namespace llmtrain::kernels

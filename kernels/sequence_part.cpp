// SPDX-License-Identifier: Apache-2.0
#include "kernels/sequence_part.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"

namespace llmtrain::kernels {

std::vector<PositionRun> SequencePart::runs_of(std::int64_t tokens) const {
  if (is_whole()) return {{0, tokens}};
  std::int64_t count = 0, end = 0;
  bool fits = true;
  // Consistency is checked at each use: a wrong part would silently attend to wrong positions.
  for (const PositionRun& run : runs) {
    fits = fits && run.begin >= end && run.length > 0;
    end = run.begin + run.length;
    count += run.length;
  }
  if (fits && end <= whole && count == tokens) return runs;
  throw Error(ExitCode::internal_error, "a sequence part's runs hold " + std::to_string(count) + " positions up to " +
                                            std::to_string(end) + "; they must ascend, be " + std::to_string(tokens) +
                                            ", and end within the sequence's " + std::to_string(whole));
}

std::vector<RowRun> rows_in_whole(const SequencePart& part, std::int64_t tokens, std::int64_t first,
                                  std::int64_t count) {
  const std::vector<PositionRun> runs = part.runs_of(tokens);
  const std::int64_t whole = part.whole_of(tokens), end = first + count;
  std::vector<RowRun> result;
  // Only the sequences that the rows touch, and of their runs only what is within the rows.
  for (std::int64_t sequence = first / tokens; sequence * tokens < end; ++sequence) {
    std::int64_t row = sequence * tokens;  // of the run's first token
    for (const PositionRun& run : runs) {
      const std::int64_t from = std::max(row, first), to = std::min(row + run.length, end);
      const RowRun next{from - first, sequence * whole + run.begin + from - row, to - from};
      row += run.length;
      if (next.length <= 0) continue;
      // Runs that meet in the unsharded tensor are joined, so that whole sequences are one run.
      const bool goes_on = !result.empty() && result.back().whole_row + result.back().length == next.whole_row;
      if (goes_on) {
        result.back().length += next.length;
      } else {
        result.push_back(next);
      }
    }
  }
  return result;
}

at::Tensor rows_at(const at::Tensor& table, const SequencePart& part, std::int64_t tokens) {
  if (part.is_whole()) return table;
  std::vector<at::Tensor> pieces;
  for (const PositionRun& run : part.runs_of(tokens)) pieces.push_back(table.narrow(0, run.begin, run.length));
  return at::cat(pieces);
}

void store_rows_at(at::Tensor& table, const SequencePart& part, const at::Tensor& rows) {
  if (part.is_whole()) return;
  std::int64_t row = 0;
  for (const PositionRun& run : part.runs_of(rows.size(0))) {
    table.narrow(0, run.begin, run.length).copy_(rows.narrow(0, row, run.length));
    row += run.length;
  }
}

}  // namespace llmtrain::kernels

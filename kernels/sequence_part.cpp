// SPDX-License-Identifier: Apache-2.0
#include "kernels/sequence_part.h"

#include <ATen/ops/cat.h>

#include <string>

#include "core/base/error.h"

namespace llmtrain::kernels {

std::vector<PositionRun> SequencePart::runs_of(std::int64_t tokens) const {
  if (is_whole()) return {{0, tokens}};
  std::int64_t count = 0, end = 0;
  bool fits = true;
  for (const PositionRun& run : runs) {
    fits = fits && run.begin >= end && run.length > 0;
    end = run.begin + run.length;
    count += run.length;
  }
  if (fits && end <= whole && count == tokens) return runs;
  throw Error(ExitCode::internal_error, "part of a sequence: its runs hold " + std::to_string(count) +
                                            " positions up to " + std::to_string(end) + "; they must ascend, be " +
                                            std::to_string(tokens) + ", and end within the sequence's " +
                                            std::to_string(whole));
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

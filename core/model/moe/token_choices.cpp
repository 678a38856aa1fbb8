// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/token_choices.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/diff.h>

#include <limits>
#include <utility>

namespace llmtrain {
namespace {

// float64 [T, k], and one more column where there are other experts: the chosen experts' probabilities, and the largest
// one of the others.
at::Tensor ordered(const TokenChoices::Routed& routed) {
  const at::Tensor wide = routed.probabilities.to(at::kDouble), chosen = wide.gather(1, routed.experts);
  if (chosen.size(1) == wide.size(1)) return chosen;
  const at::Tensor others = wide.scatter(1, routed.experts, -std::numeric_limits<double>::infinity());
  return at::cat({chosen, others.amax(1, true)}, 1);
}

// [T]: see TokenChoices::Choice.
at::Tensor gaps_of(const at::Tensor& order) {
  // One expert of one leaves nothing to choose.
  if (order.size(1) < 2) return order.new_full({order.size(0)}, std::numeric_limits<double>::infinity());
  return at::diff(order, 1, 1).neg().amin(1);
}

}  // namespace

void TokenChoices::record(std::int64_t layer, const Routed& routed, const kernels::RowsAtHand& rows,
                          std::int64_t first) {
  const at::Tensor order = ordered(routed), best = order.select(1, 0).cpu().contiguous(), gaps = gaps_of(order).cpu();
  const at::Tensor experts = routed.experts.cpu().contiguous(), row_of = routed.row_of.cpu().contiguous();
  const auto* expert = experts.const_data_ptr<std::int64_t>();
  const auto* place = row_of.const_data_ptr<std::int64_t>();
  const std::int64_t k = experts.size(1);
  Layer& tokens = layers_[layer];
  for (const kernels::RowRun& run : rows.runs(experts.size(0)))
    for (std::int64_t i = 0; i < run.length; ++i) {
      const std::int64_t row = run.row + i;
      Choice choice{{expert + row * k, expert + (row + 1) * k},
                    {},
                    best.const_data_ptr<double>()[row],
                    gaps.const_data_ptr<double>()[row]};
      for (std::int64_t j = 0; j < k; ++j)
        if (place[row * k + j] >= 0) choice.kept.push_back(expert[row * k + j]);
      tokens[first + run.whole_row + i] = std::move(choice);
    }
}

}  // namespace llmtrain

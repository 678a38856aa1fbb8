// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/micro_batch_tokens.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <numeric>
#include <vector>

#include "kernels/host_copy.h"

namespace llmtrain {
namespace {

// The indices of this rank's tokens in the micro-batch, int64 [tokens].
at::Tensor indices_of(const kernels::RowsAtHand& rows, std::int64_t tokens, const at::Device& device) {
  const at::Tensor indices = at::empty({tokens}, at::kLong);
  auto* const first = indices.mutable_data_ptr<std::int64_t>();
  for (const kernels::RowRun& run : rows.runs(tokens))
    std::iota(first + run.row, first + run.row + run.length, run.whole_row);
  return kernels::to_device(indices, device);
}

// `values` [T, …], whose row i belongs to the token indices[i], in the order of the tokens.
at::Tensor in_order(const at::Tensor& values, const at::Tensor& indices) {
  return at::empty(values.sizes(), values.options()).index_copy_(0, indices, values);
}

}  // namespace

at::Tensor MicroBatchTokens::sum(const at::Tensor& values) const {
  if (ranks_ == nullptr) return values;
  // Gathered as integers of the same size: no backend sums float64, and here all ranks sum in the same order.
  const at::Tensor all = ranks_->gather_rows(values.view(at::kLong));
  return all.view(at::kDouble).view({ranks_->ranks(), -1}).sum(0);
}

kernels::ExpertRows MicroBatchTokens::assign(const kernels::TopExperts& own, std::int64_t experts,
                                             std::optional<std::int64_t> capacity, bool by_score,
                                             const kernels::RowsAtHand& rows) const {
  // Without a capacity every choice has a row, whatever the others choose.
  if (ranks_ != nullptr && capacity)
    return kernels::assign_rows(without_dropped(own, experts, *capacity, by_score, rows), experts, std::nullopt);
  std::optional<at::Tensor> priority;
  if (by_score) priority = own.scores.select(1, 0);
  return kernels::assign_rows(own.experts, experts, capacity, priority);
}

// This rank's choices, with −1 in place of those beyond the capacity. Every rank assigns all tokens: the places of one
// depend on all before it, and a token's choices are small beside its activation.
at::Tensor MicroBatchTokens::without_dropped(const kernels::TopExperts& own, std::int64_t experts,
                                             std::int64_t capacity, bool by_score,
                                             const kernels::RowsAtHand& rows) const {
  const std::int64_t k = own.experts.size(1);
  const at::Tensor indices = indices_of(rows, own.experts.size(0), own.experts.device());
  // One message: choices, index, and the bits of the score.
  std::vector<at::Tensor> columns{own.experts.to(at::kInt), indices.to(at::kInt).unsqueeze(1)};
  if (by_score) columns.push_back(own.scores.narrow(1, 0, 1).to(at::kFloat).contiguous().view(at::kInt));
  const at::Tensor all = ranks_->gather_rows(at::cat(columns, 1));
  const at::Tensor places = all.select(1, k).to(at::kLong);
  std::optional<at::Tensor> scores;
  if (by_score) scores = in_order(all.select(1, k + 1).contiguous().view(at::kFloat), places);
  const kernels::ExpertRows map =
      kernels::assign_rows(in_order(all.narrow(1, 0, k).to(at::kLong), places), experts, capacity, scores);
  const at::Tensor dropped = map.row_of.index_select(0, indices).lt(0);
  return own.experts.masked_fill(dropped, -1);
}

}  // namespace llmtrain

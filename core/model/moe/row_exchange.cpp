// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/row_exchange.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>

#include "kernels/moe/dispatch.h"

namespace llmtrain {
namespace {

// Sums of each position's consecutive counts.
std::vector<std::int64_t> by_position(const std::vector<std::int64_t>& counts, std::int64_t each) {
  std::vector<std::int64_t> sums;
  for (auto first = counts.begin(); first != counts.end(); first += each)
    sums.push_back(std::accumulate(first, first + each, std::int64_t{0}));
  return sums;
}

// The expert of every received row, of `experts` ones on this rank: rows arrive by position, and from each by expert.
at::Tensor experts_of(const std::vector<std::int64_t>& counts, std::int64_t experts) {
  const at::Tensor result = at::empty({std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), 1}, at::kLong);
  auto* next = result.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < counts.size(); ++i)
    next = std::fill_n(next, counts[i], static_cast<std::int64_t>(i) % experts);
  return result;
}

}  // namespace

RowExchange::RowExchange(const ExpertRanks& ranks, const kernels::ExpertRows& map) : ranks_(&ranks) {
  const std::int64_t experts = map.experts() / ranks.ranks();
  std::vector<std::int64_t> counts;
  for (std::int64_t expert = 0; expert < map.experts(); ++expert) counts.push_back(map.rows_of(expert));
  const std::vector<std::int64_t> theirs = ranks.exchange_counts(counts);
  sent_ = by_position(counts, experts);
  received_ = by_position(theirs, experts);
  local_ = kernels::assign_rows(experts_of(theirs, experts).to(map.row_of.device()), experts, std::nullopt);
}

at::Tensor RowExchange::to_experts(const at::Tensor& rows) const {
  return kernels::dispatch_forward(ranks_->exchange_rows(rows, sent_, received_), local_);
}

at::Tensor RowExchange::from_experts(const at::Tensor& rows) const {
  // A sum of one row each: only the order changes.
  return ranks_->exchange_rows(kernels::dispatch_backward(rows, local_), received_, sent_);
}

}  // namespace llmtrain

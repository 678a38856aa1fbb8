// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/row_exchange.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

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

// The expert of every row at this rank's `experts` experts, int64 [rows, 1]: for each rank that splits them rows by
// position and for each position by expert, then padding without an expert up to `gathered` rows.
at::Tensor experts_of(std::span<const std::int64_t> counts, std::int64_t experts, std::size_t ranks,
                      std::int64_t gathered) {
  const at::Tensor result = at::full({static_cast<std::int64_t>(ranks) * gathered, 1}, -1, at::kLong);
  const std::size_t each = counts.size() / ranks;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto* next = result.mutable_data_ptr<std::int64_t>() + static_cast<std::int64_t>(rank) * gathered;
    for (std::size_t i = 0; i < each; ++i)
      next = std::fill_n(next, counts[rank * each + i], static_cast<std::int64_t>(i) % experts);
  }
  return result;
}

// The counts of all ranks that split this rank's experts, by position.
std::vector<std::int64_t> gather_counts(const RowRanks& ranks, std::vector<std::int64_t> counts) {
  const at::Tensor own = at::from_blob(counts.data(), {static_cast<std::int64_t>(counts.size())}, at::kLong);
  const at::Tensor all = ranks.gather_rows(own);
  const auto* first = all.const_data_ptr<std::int64_t>();
  return {first, first + all.numel()};
}

}  // namespace

RowExchange::RowExchange(const MixtureRanks& ranks, const kernels::ExpertRows& map) : ranks_(ranks) {
  const std::int64_t experts = map.experts() / (ranks.experts != nullptr ? ranks.experts->ranks() : 1);
  std::vector<std::int64_t> counts;
  for (std::int64_t expert = 0; expert < map.experts(); ++expert) counts.push_back(map.rows_of(expert));
  sent_ = by_position(counts, experts);
  if (ranks.experts != nullptr) counts = ranks.experts->exchange_counts(counts);
  received_ = by_position(counts, experts);
  if (ranks.features != nullptr) counts = gather_counts(*ranks.features, std::move(counts));
  const std::vector<std::int64_t> rows = by_position(counts, map.experts());  // of each rank that splits the experts
  gathered_ = *std::max_element(rows.begin(), rows.end());
  const at::Tensor of_rows = experts_of(counts, experts, rows.size(), gathered_);
  local_ = kernels::assign_rows(of_rows.to(map.row_of.device()), experts, std::nullopt);
}

at::Tensor RowExchange::padded(at::Tensor rows) const {
  if (rows.size(0) == gathered_) return rows;
  at::Tensor result = at::empty({gathered_, rows.size(1)}, rows.options());
  result.narrow(0, 0, rows.size(0)).copy_(rows);
  return result;
}

at::Tensor RowExchange::to_experts(at::Tensor rows) const {
  if (ranks_.experts != nullptr) rows = ranks_.experts->exchange_rows(rows, sent_, received_);
  if (ranks_.features != nullptr) rows = ranks_.features->gather_rows(padded(std::move(rows)));
  return kernels::dispatch_forward(rows, local_);
}

at::Tensor RowExchange::from_experts(at::Tensor rows) const {
  // A sum of one row each: only the order changes, and padding is zero.
  rows = kernels::dispatch_backward(rows, local_);
  if (ranks_.features != nullptr) {
    const std::int64_t received = std::accumulate(received_.begin(), received_.end(), std::int64_t{0});
    rows = ranks_.features->scatter_sum_rows(rows).narrow(0, 0, received);
  }
  return ranks_.experts != nullptr ? ranks_.experts->exchange_rows(rows, received_, sent_) : rows;
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/row_exchange.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "core/model/moe/pass_clock.h"
#include "core/model/moe/row_parts.h"
#include "kernels/host_copy.h"
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
// position and for each position by expert, then padding without an expert up to `gathered` rows. `counts` are by rank,
// position and expert.
at::Tensor experts_of(std::span<const std::int64_t> counts, std::int64_t experts, std::size_t ranks,
                      std::int64_t gathered, const at::Device& device) {
  // Groups of rows with one expert: where they end, and the expert.
  std::vector<std::int64_t> ends, expert_of;
  const std::size_t each = counts.size() / ranks;
  std::int64_t end = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < each; ++i) {
      ends.push_back(end += counts[rank * each + i]);
      expert_of.push_back(static_cast<std::int64_t>(i) % experts);
    }
    ends.push_back(end = static_cast<std::int64_t>(rank + 1) * gathered);
    expert_of.push_back(-1);
  }
  const auto groups = static_cast<std::int64_t>(ends.size());
  const at::Tensor table = kernels::to_device(at::cat({at::tensor(ends), at::tensor(expert_of)}), device);
  const at::Tensor rows = at::arange(end, table.options());
  const at::Tensor group = at::searchsorted(table.narrow(0, 0, groups), rows, false, true);
  return table.narrow(0, groups, groups).index_select(0, group).unsqueeze(1);
}

// Where the rows of each of `experts` experts begin and end, of the same counts.
std::vector<std::int64_t> offsets_of(std::span<const std::int64_t> counts, std::int64_t experts) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(experts) + 1, 0);
  for (std::size_t i = 0; i < counts.size(); ++i) offsets[i % static_cast<std::size_t>(experts) + 1] += counts[i];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  return offsets;
}

// The counts of all ranks that split this rank's experts, by position.
std::vector<std::int64_t> gather_counts(const RowRanks& ranks, std::vector<std::int64_t> counts) {
  const at::Tensor own = at::from_blob(counts.data(), {static_cast<std::int64_t>(counts.size())}, at::kLong);
  const at::Tensor all = ranks.gather_rows(own);
  const auto* first = all.const_data_ptr<std::int64_t>();
  return {first, first + all.numel()};
}

// To each group of `each` numbers, and from it, the most that this rank has for an expert.
std::vector<std::int64_t> with_most(const std::vector<std::int64_t>& numbers, std::int64_t each) {
  const std::int64_t most = *std::max_element(numbers.begin(), numbers.end());
  std::vector<std::int64_t> result;
  for (auto first = numbers.begin(); first != numbers.end(); first += each) {
    result.insert(result.end(), first, first + each);
    result.push_back(most);
  }
  return result;
}

// The numbers without the last of each group of `each` and one more; returns the most of those.
std::int64_t take_most(std::vector<std::int64_t>& numbers, std::int64_t each) {
  std::vector<std::int64_t> kept;
  std::int64_t most = 0;
  for (auto first = numbers.begin(); first != numbers.end(); first += each + 1) {
    kept.insert(kept.end(), first, first + each);
    most = std::max(most, *(first + each));
  }
  numbers = std::move(kept);
  return most;
}

// A part's share of each of the numbers.
std::vector<std::int64_t> numbers_of_part(std::vector<std::int64_t> numbers, std::int64_t part, std::int64_t parts) {
  for (std::int64_t& number : numbers) number = part_begin(number, part + 1, parts) - part_begin(number, part, parts);
  return numbers;
}

// Rows that need not be sent.
class LocalRows final : public RowTransfer {
 public:
  explicit LocalRows(at::Tensor rows) : rows_(std::move(rows)) {}
  at::Tensor wait() override { return std::move(rows_); }

 private:
  at::Tensor rows_;
};

}  // namespace

RowExchange::RowExchange(const MixtureRanks& ranks, const kernels::ExpertRows& map) : ranks_(ranks) {
  experts_ = map.experts() / (ranks.experts != nullptr ? ranks.experts->ranks() : 1);
  std::vector<std::int64_t> own;
  for (std::int64_t i = 0; i < map.experts(); ++i) own.push_back(map.rows_of(i));
  // Agreed on for all parts together: the others cut them likewise.
  const auto [numbers, gathered, parts] = agree(std::move(own));
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < parts; ++i) {
    const RowNumbers share{numbers_of_part(numbers.own, i, parts), numbers_of_part(numbers.arriving, i, parts),
                           numbers_of_part(numbers.relayed, i, parts)};
    parts_.push_back(part_of(share, numbers_of_part(gathered, i, parts), map.row_of.device()));
    parts_.back().first = first;
    first += parts_.back().own;
  }
}

void RowExchange::visit(const KeptTensorVisitor& visit) {
  for (Part& part : parts_) visit_rows(part.local, visit);
}

RowExchange::Agreed RowExchange::agree(std::vector<std::int64_t> own) {
  // With the numbers travels what the choice depends on: no message more.
  const bool chooses = ranks_.chooser != nullptr;
  if (chooses) own = with_most(own, experts_);
  Agreed agreed;
  RowNumbers& numbers = agreed.numbers;
  numbers = ranks_.experts != nullptr ? ranks_.experts->exchange_numbers(std::move(own)) : RowNumbers{own, own, {}};
  agreed.gathered = ranks_.features != nullptr ? gather_counts(*ranks_.features, numbers.arriving) : numbers.arriving;
  if (!chooses) {
    agreed.parts = ranks_.experts != nullptr ? ranks_.overlap : 1;
    return agreed;
  }
  fullest_ = take_most(agreed.gathered, experts_);
  for (std::vector<std::int64_t>* each : {&numbers.own, &numbers.arriving, &numbers.relayed})
    take_most(*each, experts_);
  const ExchangeMethod method = ranks_.chooser->choose(fullest_);
  if (method.all_to_all == AllToAll::linear) numbers.relayed.clear();
  agreed.parts = method.parts;
  return agreed;
}

RowExchange::Part RowExchange::part_of(const RowNumbers& numbers, const std::vector<std::int64_t>& gathered,
                                       const at::Device& device) const {
  Part part;
  part.numbers = {by_position(numbers.own, experts_), by_position(numbers.arriving, experts_),
                  by_position(numbers.relayed, experts_)};
  part.own = std::accumulate(numbers.own.begin(), numbers.own.end(), std::int64_t{0});
  part.arriving = std::accumulate(numbers.arriving.begin(), numbers.arriving.end(), std::int64_t{0});
  // How many rows each rank has that splits the experts.
  const std::vector<std::int64_t> rows = by_position(gathered, static_cast<std::int64_t>(numbers.own.size()));
  part.gathered = *std::max_element(rows.begin(), rows.end());
  const at::Tensor of_rows = experts_of(gathered, experts_, rows.size(), part.gathered, device);
  part.local =
      kernels::with_offsets(kernels::assign_rows(of_rows, experts_, std::nullopt), offsets_of(gathered, experts_));
  return part;
}

at::Tensor RowExchange::padded(const Part& part, at::Tensor rows) {
  if (rows.size(0) == part.gathered) return rows;
  at::Tensor result = at::empty({part.gathered, rows.size(1)}, rows.options());
  result.narrow(0, 0, rows.size(0)).copy_(rows);
  return result;
}

std::unique_ptr<RowTransfer> RowExchange::start_arrival(const Part& part, const at::Tensor& rows) const {
  if (ranks_.experts == nullptr) return std::make_unique<LocalRows>(rows);
  return ranks_.experts->start_exchange(RowsWay::to_experts, rows, part.numbers,
                                        at::empty({part.arriving, rows.size(1)}, rows.options()));
}

at::Tensor RowExchange::by_expert(const Part& part, at::Tensor arrived) const {
  if (ranks_.features != nullptr) arrived = ranks_.features->gather_rows(padded(part, std::move(arrived)));
  return kernels::dispatch_forward(arrived, part.local);
}

at::Tensor RowExchange::by_rank(const Part& part, at::Tensor results) const {
  // A sum of one row each: only the order changes, and padding is zero.
  results = kernels::dispatch_backward(results, part.local);
  return ranks_.features == nullptr ? results : ranks_.features->scatter_sum_rows(results).narrow(0, 0, part.arriving);
}

at::Tensor RowExchange::through_experts(at::Tensor rows, const Network& network) const {
  if (ranks_.chooser == nullptr) return pass(std::move(rows), network);
  const PassClock clock(rows.device());
  at::Tensor results = pass(std::move(rows), network);
  ranks_.chooser->took(fullest_, clock.stop());
  return results;
}

at::Tensor RowExchange::pass(at::Tensor rows, const Network& network) const {
  const at::TensorOptions options = rows.options();
  const std::int64_t width = rows.size(1), own = rows.size(0);
  // All of them before the first results, which follow them on the same links: no link is idle while experts compute.
  std::vector<std::unique_ptr<RowTransfer>> arriving;
  for (const Part& part : parts_) arriving.push_back(start_arrival(part, rows.narrow(0, part.first, part.own)));
  rows.reset();
  at::Tensor results;
  std::unique_ptr<RowTransfer> leaving;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    at::Tensor arrived = arriving[i]->wait();
    if (i + 1 < parts_.size()) arriving[i + 1]->advance();
    if (leaving) leaving->advance();
    // In statements of their own, whose end releases what each is given.
    at::Tensor given = by_expert(part, std::move(arrived));
    at::Tensor made = network(i, std::move(given));
    const at::Tensor sent = by_rank(part, std::move(made));
    if (ranks_.experts == nullptr) return sent;
    // At most two parts of results are held: the next one could not leave before this one has left.
    if (leaving) leaving->wait();
    if (!results.defined()) results = at::empty({own, width}, options);
    leaving = ranks_.experts->start_exchange(RowsWay::from_experts, sent, part.numbers,
                                             results.narrow(0, part.first, part.own));
  }
  leaving->wait();
  return results;
}

}  // namespace llmtrain

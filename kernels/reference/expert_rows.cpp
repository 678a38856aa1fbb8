// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <limits>

#include "kernels/reference/operators.h"

namespace llmtrain::kernels::reference {
namespace {

// Indices in descending order, of equal numbers the first one first: a sort that is stable, unlike top-k on a GPU.
at::Tensor descending(const at::Tensor& numbers, std::int64_t dimension) {
  return std::get<1>(at::sort(numbers, true, dimension, true));
}

// Choices in the order of experts and, within an expert, in that in which they are served.
struct Queues {
  at::Tensor experts;  // int32 [choices]: ascending, `count` of those without one
  at::Tensor choices;  // int64 [choices]
  at::Tensor starts;   // int64 [count + 1]: where each expert's begin, and those without one
};

Queues queues_of(const at::Tensor& experts, std::int64_t count, const std::optional<at::Tensor>& scores) {
  const std::int64_t tokens = experts.size(0), k = experts.size(1);
  std::optional<at::Tensor> order;
  if (scores) order = descending(*scores, 0);
  // All first choices before all second ones.
  const at::Tensor served = (order ? experts.index_select(0, *order) : experts).t().reshape({-1});
  const at::Tensor keys = at::where(served.lt(0), count, served).to(at::kInt);
  const auto [sorted, places] = at::sort(keys, true, 0, false);
  at::Tensor token = places.remainder(std::max<std::int64_t>(tokens, 1));
  const at::Tensor column = places.div(std::max<std::int64_t>(tokens, 1), "floor");
  if (order) token = order->index_select(0, token);
  return {sorted, token.mul(k).add_(column), at::searchsorted(sorted, at::arange(count + 1, sorted.options()))};
}

// The choice of each row, with `begins` [count] of the experts' first rows.
at::Tensor choices_of_rows(const Queues& queues, const at::Tensor& begins, const at::Tensor& ends, std::int64_t rows) {
  const std::int64_t count = ends.size(0), choices = queues.choices.size(0);
  const at::Tensor row = at::arange(rows, queues.choices.options());
  // Rows that no expert has take the last expert's place, and those that no choice has the last choice's.
  const at::Tensor expert = at::searchsorted(ends, row, false, true).clamp_max_(count - 1);
  const at::Tensor place = row - begins.index_select(0, expert) + queues.starts.index_select(0, expert);
  return queues.choices.index_select(0, place.clamp_max_(choices - 1));
}

}  // namespace

TopExperts top_experts(const at::Tensor& scores, std::int64_t k) {
  // A sort takes NaN for the largest number.
  const at::Tensor numbers = scores.masked_fill(scores.isnan(), -std::numeric_limits<double>::infinity());
  const at::Tensor experts = descending(numbers, 1).narrow(1, 0, k).contiguous();
  return {experts, scores.gather(1, experts)};
}

ExpertRows assign_rows(const at::Tensor& experts, std::int64_t count, std::optional<std::int64_t> capacity,
                       const std::optional<at::Tensor>& scores) {
  const std::int64_t choices = experts.numel();
  const std::int64_t most = std::min(capacity.value_or(choices), choices);
  const Queues queues = queues_of(experts, count, scores);
  const at::Tensor used = (queues.starts.narrow(0, 1, count) - queues.starts.narrow(0, 0, count)).clamp_max_(most);
  const at::Tensor ends = used.cumsum(0), begins = ends - used;

  const at::Tensor expert = queues.experts.to(at::kLong);
  const at::Tensor place = at::arange(choices, expert.options()) - queues.starts.index_select(0, expert);
  const at::Tensor has_row = expert.lt(count).logical_and_(place.lt(most));
  const at::Tensor row = begins.index_select(0, expert.clamp_max(count - 1)).add_(place);
  const at::Tensor row_of = at::empty({choices}, expert.options());
  row_of.index_copy_(0, queues.choices, at::where(has_row, row, -1));

  ExpertRows result;
  result.ends = ends.to(at::kInt);
  result.row_of = row_of.view_as(experts);
  // Without a capacity the rows are the queues themselves.
  result.choice_of = capacity ? choices_of_rows(queues, begins, ends, std::min(choices, count * most)) : queues.choices;
  return result;
}

}  // namespace llmtrain::kernels::reference

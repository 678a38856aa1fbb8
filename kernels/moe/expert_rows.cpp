// SPDX-License-Identifier: Apache-2.0
#include "kernels/moe/expert_rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tensor.h>

#include <limits>
#include <numeric>
#include <utility>

#include "kernels/cuda_operators/moe/expert_rows.h"
#include "kernels/host_copy.h"
#include "kernels/reference/operators.h"

namespace llmtrain::kernels {
namespace {

// Rows below which starting a second thread costs more than it saves.
constexpr std::int64_t least_parallel_rows = 512;

// The k largest of one row, by k passes: k is small, and nothing is moved.
template <class Score>
void choose(const Score* row, std::int64_t experts, std::int64_t k, std::int64_t* chosen, Score* scores) {
  const auto is_chosen = [&](std::int64_t expert, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j)
      if (chosen[j] == expert) return true;
    return false;
  };
  for (std::int64_t j = 0; j < k; ++j) {
    std::int64_t best = -1;
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      if (is_chosen(expert, j)) continue;
      // Strictly larger: of equal scores the first one stays. A comparison with NaN is false, so only a NaN that is met
      // first stays, which the second condition replaces.
      if (best < 0 || row[expert] > row[best] || (row[best] != row[best] && row[expert] == row[expert])) best = expert;
    }
    chosen[j] = best;
    scores[j] = row[best];
  }
}

template <class Score>
void choose_all(const at::Tensor& scores, std::int64_t k, const TopExperts& top) {
  const std::int64_t rows = scores.size(0), experts = scores.size(1);
  const Score* from = scores.const_data_ptr<Score>();
  auto* chosen = top.experts.mutable_data_ptr<std::int64_t>();
  auto* best = top.scores.mutable_data_ptr<Score>();
#pragma omp parallel for schedule(static) if (rows >= least_parallel_rows)
  for (std::int64_t t = 0; t < rows; ++t) choose(from + t * experts, experts, k, chosen + t * k, best + t * k);
}

}  // namespace

TopExperts top_experts(const at::Tensor& scores, std::int64_t k) {
  if (!scores.is_cpu()) return reference::top_experts(scores, k);
  TopExperts top{at::empty({scores.size(0), k}, at::kLong), at::empty({scores.size(0), k}, scores.options())};
  if (scores.scalar_type() == at::kDouble) {
    choose_all<double>(scores, k, top);
  } else {
    choose_all<float>(scores, k, top);
  }
  return top;
}

ExpertRows assign_rows(const at::Tensor& experts, std::int64_t count, std::optional<std::int64_t> capacity,
                       const std::optional<at::Tensor>& scores) {
  if (has_cuda_expert_rows(experts, count)) return cuda_assign_rows(experts, count, capacity, scores);
  if (!experts.is_cpu()) return reference::assign_rows(experts, count, capacity, scores);
  const std::int64_t tokens = experts.size(0), k = experts.size(1);
  const at::Tensor order = scores ? at::argsort(*scores, true, 0, true) : at::arange(tokens, at::kLong);
  const at::Tensor in_rows = experts.contiguous();
  const auto* expert_of = in_rows.const_data_ptr<std::int64_t>();
  const auto* token_at = order.const_data_ptr<std::int64_t>();
  const std::int64_t most = capacity.value_or(std::numeric_limits<std::int64_t>::max());

  ExpertRows result;
  result.offsets.assign(static_cast<std::size_t>(count) + 1, 0);
  const at::Tensor row_of = at::empty({tokens, k}, at::kLong);
  auto* rows = row_of.mutable_data_ptr<std::int64_t>();
  // First the place of each choice among its expert's rows, then, when the experts' rows are counted, the row.
  const auto used = [&](std::int64_t expert) -> std::int64_t& {
    return result.offsets[static_cast<std::size_t>(expert) + 1];
  };
  for (std::int64_t j = 0; j < k; ++j) {
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::int64_t choice = token_at[i] * k + j;
      rows[choice] = -1;
      if (expert_of[choice] < 0) continue;
      std::int64_t& place = used(expert_of[choice]);
      if (place < most) rows[choice] = place++;
    }
  }
  std::partial_sum(result.offsets.begin(), result.offsets.end(), result.offsets.begin());
  result.choice_of = at::empty({result.offsets.back()}, at::kLong);
  auto* choices = result.choice_of.mutable_data_ptr<std::int64_t>();
  for (std::int64_t choice = 0; choice < tokens * k; ++choice) {
    if (rows[choice] < 0) continue;
    rows[choice] += result.offsets[static_cast<std::size_t>(expert_of[choice])];
    choices[rows[choice]] = choice;
  }
  result.row_of = row_of;
  return result;
}

ExpertRows with_offsets(ExpertRows map) {
  if (map.has_offsets()) return map;
  const at::Tensor ends = to_host(map.ends);
  const auto* first = ends.const_data_ptr<std::int32_t>();
  std::vector<std::int64_t> offsets{0};
  offsets.insert(offsets.end(), first, first + ends.numel());
  return with_offsets(std::move(map), std::move(offsets));
}

ExpertRows with_offsets(ExpertRows map, std::vector<std::int64_t> offsets) {
  map.offsets = std::move(offsets);
  map.choice_of = map.choice_of.narrow(0, 0, map.offsets.back());
  return map;
}

at::Tensor experts_of_rows(const ExpertRows& map) {
  const at::Tensor ends =
      map.ends.defined() ? map.ends : at::tensor(at::ArrayRef(map.offsets).slice(1), at::kLong).to(at::kInt);
  return at::searchsorted(ends, at::arange(map.rows(), ends.options()), false, true).clamp_max_(map.experts() - 1);
}

}  // namespace llmtrain::kernels

// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/log_probability.h"

#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "core/graph/sharding.h"
#include "kernels/cross_entropy.h"

namespace llmtrain {
namespace {

// As tensor ranks make it, each with its slice of the vocabulary (core/model/head_block.cpp).
at::Tensor loss_of_slices(const at::Tensor& row, const at::Tensor& target, std::int64_t ranks) {
  const std::int64_t vocabulary = row.size(1);
  const std::int64_t width = local_units({Split::Kind::padded, 0, vocabulary}, ranks);
  std::vector<at::Tensor> statistics;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t begin = std::min(rank * width, vocabulary), end = std::min(begin + width, vocabulary);
    statistics.push_back(kernels::cross_entropy_statistics(row.narrow(1, begin, end - begin).contiguous(), target,
                                                           {.begin = begin, .whole = vocabulary}));
  }
  return kernels::cross_entropy_losses(kernels::join_cross_entropy_statistics(at::stack(statistics)));
}

}  // namespace

LogProbabilities::LogProbabilities(std::span<const float> logits)
    : logits_(logits), largest_(*std::max_element(logits.begin(), logits.end())) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - static_cast<double>(largest_));
  log_sum_ = std::log(sum);
}

std::vector<std::int64_t> LogProbabilities::likeliest(std::int64_t count) const {
  std::vector<std::int64_t> ids(logits_.size());
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  const auto end = ids.begin() + std::min<std::ptrdiff_t>(count, std::ssize(ids));
  std::partial_sort(ids.begin(), end, ids.end(), [&](std::int64_t a, std::int64_t b) {
    const float left = logits_[static_cast<std::size_t>(a)], right = logits_[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  });
  ids.erase(end, ids.end());
  return ids;
}

std::vector<double> negative_losses(const at::Tensor& logits, std::span<const std::int64_t> ids,
                                    std::int64_t tensor_ranks) {
  const at::Tensor row = logits.unsqueeze(0).contiguous();
  std::vector<double> result;
  for (const std::int64_t id : ids) {
    const at::Tensor target = at::full({1}, id, at::kLong);
    const at::Tensor loss =
        tensor_ranks == 1 ? kernels::cross_entropy_forward(row, target) : loss_of_slices(row, target, tensor_ranks);
    result.push_back(-loss.item<double>());
  }
  return result;
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/log_probability.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "kernels/cross_entropy.h"

namespace llmtrain {

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

std::vector<double> negative_losses(const at::Tensor& logits, std::span<const std::int64_t> ids) {
  const at::Tensor row = logits.unsqueeze(0).contiguous();
  std::vector<double> result;
  for (const std::int64_t id : ids)
    result.push_back(-kernels::cross_entropy_forward(row, at::full({1}, id, at::kLong)).item<double>());
  return result;
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/sample_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace llmtrain {
namespace {

// Exact shares need a table of as many entries as their sum: 65536 keeps it small and covers percentages with two
// decimals. Weights without such a sum are rounded to parts of 2²⁰.
constexpr std::int64_t largest_exact_sum = 65536;
constexpr double approximate_sum = 1 << 20;
// Far above the rounding error of weight·sum in double, far below any effect on a run.
constexpr double tolerance = 1e-9;

std::vector<double> scaled_to_sum_one(std::span<const double> weights) {
  // Divided by the largest first: the sum of huge weights would overflow.
  const double largest = std::ranges::max(weights);
  std::vector<double> result;
  for (const double weight : weights) result.push_back(weight / largest);
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& weight : result) weight /= sum;
  return result;
}

bool represents(std::int64_t sum, const std::vector<double>& weights) {
  return std::ranges::all_of(weights, [sum](double weight) {
    const double share = weight * static_cast<double>(sum);
    const double nearest = std::round(share);
    // A share of 0 would never read its source.
    return nearest >= 1 && std::abs(share - nearest) <= tolerance;
  });
}

std::vector<std::int64_t> integer_shares(const std::vector<double>& weights) {
  // The smallest sum gives the shortest period.
  std::int64_t exact = 1;
  while (exact <= largest_exact_sum && !represents(exact, weights)) ++exact;
  const double sum = exact <= largest_exact_sum ? static_cast<double>(exact) : approximate_sum;
  std::vector<std::int64_t> shares;
  for (const double weight : weights) shares.push_back(std::max<std::int64_t>(1, std::llround(weight * sum)));
  return shares;
}

}  // namespace

Blend::Blend(std::span<const double> weights) : shares_(integer_shares(scaled_to_sum_one(weights))) {
  const std::int64_t period = std::accumulate(shares_.begin(), shares_.end(), std::int64_t{0});
  table_.reserve(static_cast<std::size_t>(period));
  std::vector<std::int64_t> deficits(shares_.size(), 0);  // in units of 1 / period
  std::vector<std::uint32_t> taken(shares_.size(), 0);
  for (std::int64_t position = 0; position < period; ++position) {
    // Integers throughout: ties and sums are exact, so every machine gets the same order.
    for (std::size_t i = 0; i < shares_.size(); ++i) deficits[i] += shares_[i];
    const auto source = static_cast<std::size_t>(std::ranges::max_element(deficits) - deficits.begin());
    table_.push_back({static_cast<std::uint32_t>(source), taken[source]++});
    deficits[source] -= period;
  }
}

Blend::Choice Blend::at(std::int64_t position) const {
  // The order repeats after a period, in which a source is chosen as often as its share.
  const Entry& entry = table_[static_cast<std::size_t>(position % period())];
  return {entry.source, position / period() * shares_[entry.source] + entry.take};
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/exchange_trials.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace llmtrain {
namespace {

// Counted is an odd number, so that the median is a time that was measured.
constexpr std::size_t uncounted = 1, counted = 9;

// A method whose least time is so many times that of the fastest one is not tried again: the less, the more is known.
// After few turns a method may only have met a slow phase of the machine.
constexpr double far_slower(std::size_t turns) { return turns < uncounted + 3 ? 1.25 : 1.1; }

using Times = std::vector<double>;

// The least and not the median, which takes more turns to settle: other work on the machine makes times longer, never
// shorter.
double least_of(const Times& seconds, std::size_t turns) {
  const auto first = seconds.begin();
  return *std::min_element(first + uncounted, first + static_cast<std::ptrdiff_t>(turns));
}

double median_of(const Times& seconds) {
  Times sorted(seconds.begin() + uncounted, seconds.begin() + uncounted + counted);
  std::sort(sorted.begin(), sorted.end());
  return sorted[counted / 2];
}

void drop_slow(std::vector<std::size_t>& methods, const std::vector<Times>& seconds, std::size_t turns) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const std::size_t method : methods) fastest = std::min(fastest, least_of(seconds[method], turns));
  std::erase_if(methods,
                [&](std::size_t method) { return least_of(seconds[method], turns) > far_slower(turns) * fastest; });
}

}  // namespace

MethodChoice next_method(const std::vector<Times>& seconds) {
  std::vector<std::size_t> methods(seconds.size());
  std::iota(methods.begin(), methods.end(), std::size_t{0});
  for (std::size_t turn = 0; turn < uncounted + counted; ++turn) {
    for (const std::size_t method : methods)
      if (seconds[method].size() <= turn) return {method, false};
    if (turn >= uncounted) drop_slow(methods, seconds, turn + 1);
    if (methods.size() == 1) return {methods.front(), true};
  }
  const auto is_faster = [&](std::size_t one, std::size_t other) {
    return median_of(seconds[one]) < median_of(seconds[other]);
  };
  return {*std::min_element(methods.begin(), methods.end(), is_faster), true};
}

}  // namespace llmtrain

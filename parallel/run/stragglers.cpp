// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/stragglers.h"

#include <algorithm>
#include <utility>

namespace llmtrain {
namespace {

// The lower one of two in the middle, so that of two ranks the faster one is typical.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

StragglerWatch::StragglerWatch(std::vector<std::vector<int>> peers) : peers_(std::move(peers)) {}

std::optional<Straggler> StragglerWatch::add(std::span<const double> seconds) {
  steps_.resize(seconds.size());
  for (std::size_t rank = 0; rank < seconds.size(); ++rank) steps_[rank].push_back(seconds[rank]);
  if (steps_.empty() || steps_.front().size() < window) return std::nullopt;
  const std::optional<Straggler> found = slowest();
  if (found) named_.push_back(found->rank);
  for (std::vector<double>& each : steps_) each.clear();
  return found;
}

std::optional<Straggler> StragglerWatch::slowest() const {
  std::optional<Straggler> found;
  for (const std::vector<int>& group : peers_) {
    std::vector<double> medians;
    for (const int rank : group) medians.push_back(median(steps_[static_cast<std::size_t>(rank)]));
    // Medians, so that one slow rank does not raise what it is compared with.
    const double typical = median(medians);
    for (std::size_t i = 0; i < group.size(); ++i) {
      const bool is_slow = medians[i] > ratio * typical && medians[i] - typical > least;
      const bool is_news = std::ranges::count(named_, group[i]) == 0;
      if (is_slow && is_news && (!found || medians[i] / typical > found->seconds / found->typical))
        found = Straggler{group[i], medians[i], typical};
    }
  }
  return found;
}

}  // namespace llmtrain

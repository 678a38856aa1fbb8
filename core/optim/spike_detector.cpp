// SPDX-License-Identifier: Apache-2.0
#include "core/optim/spike_detector.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace llmtrain {
namespace {

// The least deviation that counts, as a share of the mean. Values that hardly differ have a deviation that is rounding,
// in which layouts differ: what is a spike must not depend on that.
constexpr double smallest_deviation = 1e-3;

// `limit` is in standard deviations; 0: none.
std::optional<Spike> spike_of(std::string_view quantity, double value, const std::vector<double>& window,
                              double limit) {
  if (limit == 0) return std::nullopt;
  const auto count = static_cast<double>(window.size());
  const double mean = std::accumulate(window.begin(), window.end(), 0.0) / count;
  const double squares = std::accumulate(window.begin(), window.end(), 0.0, [mean](double sum, double each) {
    return sum + (each - mean) * (each - mean);
  });
  const double deviation = std::max(std::sqrt(squares / count), smallest_deviation * std::abs(mean));
  // A value that is not a number is not below the limit either.
  if (value <= mean + limit * deviation) return std::nullopt;
  return Spike{quantity, value, mean, deviation};
}

}  // namespace

std::optional<Spike> SpikeDetector::update(double loss, double gradient_norm) {
  if (!is_on()) return std::nullopt;
  if (static_cast<std::int64_t>(recent_.losses.size()) >= recipe_.window) {
    if (auto spike = spike_of("loss", loss, recent_.losses, recipe_.loss)) return spike;
    if (auto spike = spike_of("gradient norm", gradient_norm, recent_.gradient_norms, recipe_.gradient_norm))
      return spike;
  } else if (!std::isfinite(loss)) {
    return Spike{"loss", loss, 0, 1};
  }
  recent_.losses.push_back(loss);
  recent_.gradient_norms.push_back(gradient_norm);
  shorten();
  return std::nullopt;
}

void SpikeDetector::set_recent(RecentUpdates recent) {
  if (!is_on()) return;
  recent_ = std::move(recent);
  shorten();
}

void SpikeDetector::shorten() {
  const auto surplus = std::max<std::int64_t>(0, static_cast<std::int64_t>(recent_.losses.size()) - recipe_.window);
  recent_.losses.erase(recent_.losses.begin(), recent_.losses.begin() + surplus);
  recent_.gradient_norms.erase(recent_.gradient_norms.begin(), recent_.gradient_norms.begin() + surplus);
}

}  // namespace llmtrain

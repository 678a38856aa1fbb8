// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "core/checkpoint/checkpoint.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// A loss or gradient norm that is far above those of the updates before it.
struct Spike {
  std::string_view quantity;  // "loss" or "gradient norm"
  double value = 0;
  double mean = 0, deviation = 0;  // of the updates before

  double deviations() const { return (value - mean) / deviation; }
};

// Finds spikes of loss and gradient norm by their distance from the mean of the last updates, in standard deviations,
// as llm.c's outlier detector does; but here a spike does not enter the window, which it would widen for all that
// follow. Nothing is a spike before the window is full. All ranks pass the same numbers and so decide alike.
class SpikeDetector {
 public:
  explicit SpikeDetector(const SpikeRecipe& recipe) : recipe_(recipe) {}

  // What a step whose loss and gradient norm these are must be skipped for. None: they are those of an update, and
  // enter the window. A loss that is not finite is a spike too.
  std::optional<Spike> update(double loss, double gradient_norm);

  // The window; empty where nothing is watched.
  const RecentUpdates& recent() const { return recent_; }
  // Takes a checkpoint's. It may be of a longer window: then the newest updates count.
  void set_recent(RecentUpdates recent);

 private:
  bool is_on() const { return recipe_.loss > 0 || recipe_.gradient_norm > 0; }
  void shorten();

  SpikeRecipe recipe_;
  RecentUpdates recent_;
};

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

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
  // The window, as a checkpoint keeps it: of each update, the oldest first.
  struct State {
    std::vector<double> losses;
    std::vector<double> gradient_norms;
  };

  explicit SpikeDetector(const SpikeRecipe& recipe) : recipe_(recipe) {}

  // What a step whose loss and gradient norm these are must be skipped for. None: they are those of an update, and
  // enter the window. A loss that is not finite is a spike too.
  std::optional<Spike> update(double loss, double gradient_norm);

  // Empty where nothing is watched.
  const State& state() const { return state_; }
  // Of a checkpoint, perhaps with another window: of more updates the newest count. Both lists are of one length.
  void set_state(State state);

 private:
  bool is_on() const { return recipe_.loss > 0 || recipe_.gradient_norm > 0; }
  void shorten();

  SpikeRecipe recipe_;
  State state_;
};

}  // namespace llmtrain

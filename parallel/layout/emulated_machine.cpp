// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/emulated_machine.h"

namespace llmtrain {
namespace {

bool is_emulated(const LaunchRecipe& launch) { return launch.backend == CommunicationBackend::local; }

}  // namespace

EmulatedLayer emulated_layer(const Recipe& recipe) {
  if (!is_emulated(recipe.launch)) return {};
  const double forward = recipe.launch.layer_delay_microseconds * 1e-6;
  // Backward: two products per product of the forward, and full recompute repeats the forward.
  return {forward, (recipe.memory.recompute == Recompute::full ? 3 : 2) * forward};
}

EmulatedLink emulated_link(const LaunchRecipe& launch) {
  if (!is_emulated(launch)) return {};
  const double rate = launch.link_megabytes_per_second * 1e6;
  return {launch.link_delay_microseconds * 1e-6, rate > 0 ? 1 / rate : 0};
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "core/graph/graph.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// What the local backend emulates if the recipe's launch section asks for it, so that layouts and schedules can be
// compared without the machine that they are meant for; zero otherwise.

// Minimum seconds of these blocks' layers for a micro-batch on a rank's own device. The backward has twice the
// forward's products, and recompute of whole layers repeats the forward's.
struct EmulatedPasses {
  double forward_seconds = 0;
  double backward_seconds = 0;
};
inline EmulatedPasses emulated_passes(const Recipe& recipe, const Graph& graph, std::span<const std::size_t> blocks) {
  if (recipe.launch.backend != CommunicationBackend::local) return {};
  const double forward = recipe.launch.layer_delay_microseconds * 1e-6;
  EmulatedPasses passes;
  for (const std::size_t index : blocks) {
    const Block& block = graph.blocks[index];
    if (!block.is_unit) continue;
    passes.forward_seconds += forward;
    if (!block.has_backward) continue;
    passes.backward_seconds += (repeats_layers(block.recompute.value_or(recipe.memory.recompute)) ? 3 : 2) * forward;
  }
  return passes;
}

// What the network adds: to every message or hop of a collective's ring a latency, and for each message and byte that a
// rank sends a time for which they occupy its link. Between ranks of one node all of it is divided by the speedup.
struct EmulatedLink {
  double hop_seconds = 0;
  double byte_seconds = 0;
  double message_seconds = 0;
  double node_speedup = 1;
};
inline EmulatedLink emulated_link(const LaunchRecipe& launch) {
  if (launch.backend != CommunicationBackend::local) return {};
  const double rate = launch.link_megabytes_per_second * 1e6;
  return {launch.link_delay_microseconds * 1e-6, rate > 0 ? 1 / rate : 0, launch.link_message_microseconds * 1e-6,
          launch.node_link_speedup};
}

}  // namespace llmtrain

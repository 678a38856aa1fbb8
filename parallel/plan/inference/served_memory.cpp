// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/served_memory.h"

#include <algorithm>

namespace llmtrain {
namespace {

// The part of a parameter that a device holds. Weights lie cut along x as well, whether a pass gathers them or not.
double held_elements(const Parameter& parameter, const DeviceSplit& split) {
  const double elements = as_real(parameter.elements()), devices = as_real(split.devices());
  if (parameter.has_expert_axis) return elements / devices;
  switch (parameter.split.kind) {
    case Split::Kind::none:
      return elements;
    case Split::Kind::even:
    case Split::Kind::padded:
      return elements / devices;
    case Split::Kind::repeated:
      return elements / as_real(split.x) / as_real(std::min(parameter.split.units, split.devices() / split.x));
  }
  return elements;
}

double weight_bytes(const Graph& graph, const PassPricer& pricer, const DeviceSplit& split) {
  double bytes = 0;
  for (const Block& block : graph.blocks) {
    if (!is_served(block)) continue;
    for (const std::size_t index : block.parameters) {
      const Parameter& parameter = graph.parameters[index];
      bytes += held_elements(parameter, split) *
               (parameter.is_layer_matrix ? pricer.weight_bytes() : pricer.element_bytes());
    }
  }
  return bytes;
}

// The operands and the result of the largest product, and of a layer's weights the part that is multiplied and the one
// that arrives meanwhile: gathers go on part by part, as each device's comes (Wang et al., ASPLOS 2023).
double working_bytes(const Graph& graph, const PassPricer& pricer, const DeviceSplit& split, const ServedPass& pass) {
  BlockCache<double> largest(graph);
  double rows = 0, gathered = 0;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    if (!is_served(graph.blocks[block])) continue;
    rows = std::max(rows, largest.of(block, [&] {
      double most = 0;
      for (const ServedProduct& each : block_work(graph, block, pricer.compute(), split, pass).products)
        most = std::max(most, each.product.batch * each.product.rows * (each.product.inner + each.product.columns));
      return most;
    }));
    if (graph.blocks[block].layer() == nullptr || split.gathering() == 1) continue;
    const LayerShape shape = layer_shape(graph, block);
    gathered =
        std::max(gathered, 2 * (shape.attention.weights + shape.feed_forward.weights) / as_real(split.devices()));
  }
  return rows * pricer.element_bytes() + gathered * pricer.weight_bytes();
}

}  // namespace

ServedMemory served_memory(const Graph& graph, const PassPricer& pricer, const DeviceSplit& prefill_split,
                           const ServedPass& prefill, const DeviceSplit& decode_split, const ServedPass& last_token) {
  ServedMemory memory;
  memory.weights = weight_bytes(graph, pricer, decode_split);
  for (std::size_t block = 0; block < graph.blocks.size(); ++block)
    if (graph.blocks[block].layer() != nullptr && is_served(graph.blocks[block]))
      memory.cache += pricer.cached_bytes(cached_numbers(layer_shape(graph, block), decode_split, last_token));
  memory.working = std::max(working_bytes(graph, pricer, prefill_split, prefill),
                            working_bytes(graph, pricer, decode_split, last_token));
  return memory;
}

}  // namespace llmtrain

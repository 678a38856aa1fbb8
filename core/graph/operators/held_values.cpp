// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operators/held_values.h"

#include <algorithm>
#include <set>

#include "core/graph/values.h"

namespace llmtrain {
namespace {

using Values = std::span<const std::size_t>;

bool is_chain(const Graph& graph, std::span<const std::size_t> blocks, Values incoming, Values outgoing) {
  Values before = incoming;
  for (const std::size_t block : blocks) {
    if (!std::ranges::equal(graph.blocks[block].inputs, before)) return false;
    before = graph.blocks[block].outputs;
  }
  return std::ranges::equal(before, outgoing);
}

}  // namespace

std::vector<HeldValues> held_values(const OperatorLists& operators, std::span<const std::size_t> blocks,
                                    Values incoming, Values outgoing) {
  const Graph& graph = operators.graph();
  const PassSetting& setting = operators.setting();
  if (is_chain(graph, blocks, incoming, outgoing)) return {};
  std::vector<HeldValues> bytes;
  std::set<std::size_t> kept;  // by the blocks so far
  for (const std::size_t block : blocks) {
    HeldValues& of_block = bytes.emplace_back();
    const Block& described = graph.blocks[block];
    for (std::size_t input = 0; input < described.inputs.size(); ++input) {
      const double of_input = kept_input_bytes(operators.of(block), operators.recompute_of(block), input);
      if (of_input > 0 && !kept.insert(described.inputs[input]).second) of_block.repeated += of_input;
    }
    for (const std::size_t value : values_across(graph, block + 1)) {
      if (std::ranges::count(described.outputs, value) > 0) continue;
      const double of_value = value_bytes(graph.values[value], setting);
      if (described.has_backward) of_block.beside_backward += of_value;
      if (!kept.contains(value)) of_block.beside_forward += of_value;
    }
  }
  return bytes;
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "core/graph/values.h"

#include <algorithm>
#include <array>
#include <utility>

namespace llmtrain {
namespace {

// The block that makes a value, and the last one that reads it.
struct Span {
  std::size_t made = 0;
  std::size_t last_read = 0;
};

std::vector<Span> spans_of(const Graph& graph) {
  std::vector<Span> spans(graph.values.size());
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    for (const std::size_t value : graph.blocks[block].inputs) spans[value].last_read = block;
    for (const std::size_t value : graph.blocks[block].outputs) spans[value].made = block;
  }
  return spans;
}

}  // namespace

std::vector<std::vector<std::size_t>> values_across(const Graph& graph, std::span<const std::size_t> blocks) {
  std::vector<std::vector<std::size_t>> across(blocks.size());
  const std::vector<Span> spans = spans_of(graph);
  for (std::size_t value = 0; value < spans.size(); ++value) {
    const auto first = std::ranges::upper_bound(blocks, spans[value].made);
    for (auto cut = first; cut != blocks.end() && *cut <= spans[value].last_read; ++cut)
      across[static_cast<std::size_t>(cut - blocks.begin())].push_back(value);
  }
  return across;
}

std::vector<std::size_t> values_across(const Graph& graph, std::size_t block) {
  return std::move(values_across(graph, std::array{block}).front());
}

double value_bytes(const Value& value, const PassSetting& setting) {
  double features = 1;
  for (const std::int64_t size : value.features) features *= static_cast<double>(size);
  TokenSetting tokens = setting.tokens;
  tokens.sequence_length = tokens.length_of(value.rows);
  return element_bytes(element_type(setting.numbers.compute)) * tokens.split() * features;
}

double values_bytes(const Graph& graph, std::span<const std::size_t> values, const PassSetting& setting) {
  double bytes = 0;
  for (const std::size_t value : values) bytes += value_bytes(graph.values[value], setting);
  return bytes;
}

double output_bytes(const Graph& graph, std::size_t block, const PassSetting& setting) {
  const Block& described = graph.blocks[block];
  return values_bytes(graph, described.outputs.empty() ? described.inputs : described.outputs, setting);
}

}  // namespace llmtrain

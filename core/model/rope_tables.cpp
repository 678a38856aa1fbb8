// SPDX-License-Identifier: Apache-2.0
#include "core/model/rope_tables.h"

#include <ATen/ops/tensor.h>

#include <stdexcept>
#include <vector>

#include "core/graph/rope_frequencies.h"

namespace llmtrain {
namespace {

kernels::RopeTable make_table(const RopeSettings& rope, const at::Device& device) {
  // Whatever the scaling, computed as without one where there is none.
  if (!rope.scaling) return kernels::make_rope_table(rope.positions, rope.head_dim, rope.theta, device);
  const std::vector<double> frequencies = rope_frequencies(rope);
  return kernels::make_rope_table(rope.positions, at::tensor(frequencies, at::kDouble), rope_amplitude(rope), device);
}

}  // namespace

RopeTables::RopeTables(const Graph& graph, const at::Device& device) {
  for (const RopeSettings& rope : rope_settings(graph)) tables_.emplace_back(rope, make_table(rope, device));
}

const kernels::RopeTable& RopeTables::of(const RopeSettings& rope) const {
  for (const auto& [settings, table] : tables_)
    if (settings == rope) return table;
  throw std::out_of_range("no layer of the graph rotates by these angles");
}

}  // namespace llmtrain

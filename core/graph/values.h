// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/pass_setting.h"

namespace llmtrain {

// The values that cross the cut before a block, ascending: made before it, and read by it or later. None cross before
// the first block, and none behind the last one.
std::vector<std::size_t> values_across(const Graph& graph, std::size_t block);
// The same for several cuts at once, the blocks behind which ascend.
std::vector<std::vector<std::size_t>> values_across(const Graph& graph, std::span<const std::size_t> blocks);

// Bytes of a value on one rank in one micro-batch; with sequence parallelism only of the rank's rows.
double value_bytes(const Value& value, const PassSetting& setting);
// The same summed over values of a graph.
double values_bytes(const Graph& graph, std::span<const std::size_t> values, const PassSetting& setting);
// What a block's output and its gradient take each; of the head, whose output is as good as nothing, its input's.
double output_bytes(const Graph& graph, std::size_t block, const PassSetting& setting);

}  // namespace llmtrain

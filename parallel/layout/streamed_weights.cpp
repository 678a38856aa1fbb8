// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/streamed_weights.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/element_type.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/scratch/scratch_file.h"
#include "parallel/layout/executable.h"

namespace llmtrain {
namespace {

std::int64_t weight_bytes(const StateGroup& group) { return group.whole() * element_size(group.types.weight); }

// A layer whose weights no other stage reads.
bool may_be_streamed(const Partition& partition, std::size_t stage) {
  const Graph& graph = *partition.graph;
  if (partition.stages[stage].blocks.size() != 1) return false;
  const Block& block = graph.blocks[partition.stages[stage].blocks.front()];
  return block.is_unit && std::ranges::all_of(block.parameters, [&](std::size_t parameter) {
           return graph.parameters[parameter].readers.size() == 1;
         });
}

// So many of the layers, at equal distances.
StreamedWeights streaming(const Partition& partition, const std::vector<std::size_t>& layers, std::int64_t count) {
  StreamedWeights streamed;
  streamed.blocks.resize(partition.stages.size());
  streamed.streamed_stages = count;
  const std::int64_t all = std::ssize(layers);
  for (std::int64_t i = 0; i < all; ++i) {
    if ((i + 1) * count / all == i * count / all) continue;
    const std::size_t stage = layers[static_cast<std::size_t>(i)];
    const std::int64_t bytes = streamed_offset(partition, stage, partition.groups[stage].size());
    streamed.blocks[stage] = {streamed.bytes_per_pass, bytes};
    streamed.bytes_per_pass += bytes;
    streamed.largest_bytes = std::max(streamed.largest_bytes, bytes);
  }
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage)
    if (streamed.blocks[stage].bytes == 0)
      for (const StateGroup& group : partition.groups[stage]) streamed.resident_bytes += weight_bytes(group);
  return streamed;
}

}  // namespace

std::int64_t StreamedWeights::first_bytes() const {
  const auto first = std::ranges::find_if(blocks, [](const ScratchBlock& block) { return block.bytes > 0; });
  return first == blocks.end() ? 0 : first->bytes;
}

std::int64_t streamed_offset(const Partition& partition, std::size_t stage, std::size_t group) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < group; ++i) offset += ScratchFile::aligned(weight_bytes(partition.groups[stage][i]));
  return offset;
}

Partition partition_by_blocks(const Recipe& recipe, std::int64_t tensor_ranks) {
  Recipe by_blocks = of_one_reader(recipe);
  by_blocks.parallel.tensor = tensor_ranks;
  by_blocks.parallel.expert_tensor = tensor_ranks;
  by_blocks.launch.ranks = tensor_ranks;
  const std::shared_ptr<const Graph> graph = Partition::make(by_blocks, tensor_ranks).graph;
  by_blocks.pipeline.balance.kind = BalanceKind::blocks;
  by_blocks.pipeline.loops = std::ssize(graph->blocks);
  return Partition::make(by_blocks, tensor_ranks, graph);
}

StreamedWeights streamed_weights(const Partition& partition, std::int64_t bytes, const std::string& flag) {
  std::vector<std::size_t> layers;
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage)
    if (may_be_streamed(partition, stage)) layers.push_back(stage);
  StreamedWeights least = streaming(partition, layers, std::ssize(layers));
  if (bytes == 0) return least;
  for (std::int64_t count = 0; count <= std::ssize(layers); ++count) {
    StreamedWeights streamed = streaming(partition, layers, count);
    if (streamed.memory_bytes() <= bytes) return streamed;
    if (streamed.memory_bytes() < least.memory_bytes()) least = std::move(streamed);
  }
  throw Error(
      ExitCode::bad_recipe,
      fmt::format("{} {}: is less than the {} ({} bytes) of the weights that stay in memory and of {} layers that "
                  "are on their way; must be as much at least",
                  flag, bytes, format_bytes(least.memory_bytes()), least.memory_bytes(), StreamedWeights::buffers));
}

std::string not_streamed(const Recipe& recipe) {
  if (has_bodies(recipe.model.architecture))
    return "/model/architecture: weights are read from a file layer by layer for decoders alone";
  if (stores_fp8(recipe.precision.fp8_level))
    return "/precision/fp8_level: weights with scales stay in memory; --set precision.fp8_level=off, or give the "
           "weights all the memory";
  return "";
}

}  // namespace llmtrain

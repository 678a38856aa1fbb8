// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/state_pieces.h"

#include <algorithm>

#include "core/scratch/scratch_file.h"
#include "parallel/layout/layout.h"

namespace llmtrain {

FlatInterval StatePieces::piece(std::int64_t index) const {
  return {index * most, std::min(elements, (index + 1) * most)};
}

std::int64_t StatePieces::begin_of(std::size_t state, std::int64_t index) const {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < state; ++i) begin += ScratchFile::aligned(widths[i] * piece(index).count());
  return begin;
}

StatePieces state_pieces(const StateGroup& group, bool has_master) {
  StatePieces pieces;
  if (!group.types.is_trained || group.stays) return pieces;
  if (has_master) pieces.widths.push_back(element_bytes(group.types.master.value_or(group.types.weight)));
  pieces.widths.push_back(element_bytes(group.types.first_moment));
  if (group.types.second_moment) pieces.widths.push_back(element_bytes(*group.types.second_moment));
  pieces.elements = group.shard();
  return pieces;
}

void StateFile::add(const StatePieces& pieces, const StateTypes& types) {
  bytes += pieces.bytes();
  traffic += (types.passes() + 1) * pieces.bytes();
  if (pieces.count() > 0) largest_piece = std::max(largest_piece, pieces.piece_bytes(0));
}

StateFile state_file(const Partition& partition, std::int64_t pipeline_rank, bool is_gpu) {
  StateFile file;
  const OffloadRecipe& offload = partition.recipe.memory.offload;
  if (offload.optimizer != StatesPlace::disk) return file;
  for (auto stage = static_cast<std::size_t>(pipeline_rank); stage < partition.stages.size();
       stage += static_cast<std::size_t>(partition.mesh.pipeline))
    for (const StateGroup& group : partition.groups[stage])
      file.add(state_pieces(group, file_has_master(group, offload, is_gpu)), group.types);
  return file;
}

bool file_has_master(const StateGroup& group, const OffloadRecipe& offload, bool is_gpu) {
  return group.types.master.has_value() || (is_gpu && !offload.weights);
}

}  // namespace llmtrain

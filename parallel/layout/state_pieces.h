// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/layout/flat_shards.h"
#include "parallel/layout/state_groups.h"

namespace llmtrain {

// How the states of a rank's shard lie in a file (memory.offload.optimizer "disk"): in pieces of equally many elements,
// of which each has its part of every state, one state after another, so that it is read and written as a whole. Each
// of these parts begins where the file can be read without a copy.
struct StatePieces {
  static constexpr std::int64_t most = std::int64_t{1} << 20;  // elements of a piece

  // Bytes of an element: of the master weights, where they are in the file, and of each of the moments.
  std::vector<std::int64_t> widths;
  std::int64_t elements = 0;

  std::int64_t count() const { return (elements + most - 1) / most; }
  FlatInterval piece(std::int64_t index) const;
  // Where a state begins within a piece, and where a piece ends: `state` is then their number.
  std::int64_t begin_of(std::size_t state, std::int64_t index) const;
  std::int64_t piece_bytes(std::int64_t index) const { return begin_of(widths.size(), index); }
  // Where a piece begins: only the last is shorter than the others.
  std::int64_t offset(std::int64_t index) const { return index == 0 ? 0 : index * piece_bytes(0); }
  std::int64_t bytes() const { return count() == 0 ? 0 : offset(count() - 1) + piece_bytes(count() - 1); }
};

// None where the group is not trained. `has_master`: whether the file has weights, also those that are their own master
// elsewhere.
StatePieces state_pieces(const StateGroup& group, bool has_master);

// The file of a rank's groups, one after another.
struct StateFile {
  std::int64_t bytes = 0;
  std::int64_t largest_piece = 0;  // bytes
  std::int64_t traffic = 0;        // bytes that an update reads and writes

  // What a rank holds in memory of it.
  std::int64_t buffers() const { return 2 * largest_piece; }
  // `types`: those of the group.
  void add(const StatePieces& pieces, const StateTypes& types);
};

struct Partition;
// That of a rank of the pipeline; empty where its states are in memory.
StateFile state_file(const Partition& partition, std::int64_t pipeline_rank, bool is_gpu);

// Whether the file has a group's weights: their master, if they have one in another type. The weights that a GPU
// computes with are no master of what the host updates, unless they are the host's.
bool file_has_master(const StateGroup& group, const OffloadRecipe& offload, bool is_gpu);

}  // namespace llmtrain

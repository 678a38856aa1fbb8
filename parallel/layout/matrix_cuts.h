// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/sharding.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/layout/stages.h"

namespace llmtrain {

// How many matrices of a parameter one rank holds: one, or of routed experts one per expert.
std::int64_t local_matrices(const Parameter& parameter, const ShardDegrees& degrees);
// The matrices of a group's flat memory on one rank, in its order. The group's parameters are matrices.
std::vector<FlatInterval> matrices_of(const Graph& graph, const StateGroup& group, const ShardDegrees& degrees);

// Matrices that the ends of ZeRO's shards cut, and what the ranks of the shards send each other so that each which owns
// a part of a matrix has all of it. Muon's update needs that; elementwise updates do not.
class MatrixCuts {
 public:
  // `matrices` are ascending and do not overlap.
  MatrixCuts(std::vector<FlatInterval> matrices, FlatShards shards);

  const std::vector<FlatInterval>& matrices() const { return matrices_; }
  // Indices [first, last) of the matrices of which a shard has elements.
  struct Range {
    std::size_t first = 0, last = 0;
  };
  Range touched_by(std::int64_t shard) const;
  bool is_cut(std::size_t matrix) const { return shard_of_first(matrix) != shard_of_last(matrix); }
  // Whether any is.
  bool has_cuts() const { return has_cuts_; }
  // What one shard's rank sends another's, ascending; how many elements it sends to and receives from all others.
  std::vector<FlatInterval> sent(std::int64_t from, std::int64_t to) const;
  std::int64_t sent_elements(std::int64_t from) const;
  std::int64_t received_elements(std::int64_t to) const;

 private:
  std::int64_t shard_of_first(std::size_t matrix) const { return matrices_[matrix].begin / shards_.part(); }
  std::int64_t shard_of_last(std::size_t matrix) const { return (matrices_[matrix].end - 1) / shards_.part(); }

  std::vector<FlatInterval> matrices_;
  FlatShards shards_;
  bool has_cuts_ = false;
};

}  // namespace llmtrain

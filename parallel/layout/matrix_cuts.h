// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/sharding.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/layout/state_groups.h"

namespace llmtrain {

// How many parts of matrices may be on their way from a GPU to the host when another one arrives, where an update has
// their states there: with two, the momentum of one and the weights of the one before leave while it is orthogonalised.
inline constexpr std::size_t most_leaving_matrices = 2;

// How many matrices of a parameter one rank holds: one, or of routed experts one per expert.
std::int64_t local_matrices(const Parameter& parameter, const ShardDegrees& degrees);
// The matrices of a group's flat memory on one rank, in its order. The group's parameters are matrices.
std::vector<FlatInterval> matrices_of(const Graph& graph, const StateGroup& group, const ShardDegrees& degrees);

// Matrices that the ends of ZeRO's shards cut. An update that needs whole matrices is made once for each: on the rank
// of one of the shards that have elements of it, the matrix's home, to which the others send theirs and which sends the
// results back. Homes are chosen so that shards have about equally many elements to work on.
class MatrixCuts {
 public:
  // `matrices` are ascending and do not overlap.
  MatrixCuts(std::vector<FlatInterval> matrices, FlatShards shards);

  const std::vector<FlatInterval>& matrices() const { return matrices_; }
  bool is_cut(std::size_t matrix) const { return homes_[matrix].is_cut; }
  // Whether any is.
  bool has_cuts() const { return has_cuts_; }
  // Indices of the matrices whose home is a shard, ascending: those that it has all of, or the cut ones.
  enum class Those { whole, cut };
  std::vector<std::size_t> at_home(std::int64_t shard, Those those) const;
  // The shard that is a matrix's home.
  std::int64_t home(std::size_t matrix) const { return homes_[matrix].shard; }
  // What one shard's rank sends to another, at whose home the matrices are, ascending. Results go the other way.
  std::vector<FlatInterval> sent(std::int64_t from, std::int64_t to) const;
  // How many elements each shard's rank sends to all others, and as many it receives: parts of matrices and results.
  std::vector<std::int64_t> exchanged_elements() const;

 private:
  struct Home {
    std::int64_t shard = 0;
    bool is_cut = false;  // other shards have elements of the matrix, too
  };
  // Indices [first, last) of the matrices of which a shard has elements.
  struct Range {
    std::size_t first = 0, last = 0;
  };
  Range touched_by(std::int64_t shard) const;
  std::vector<FlatInterval> matrices_;
  FlatShards shards_;
  std::vector<Home> homes_;  // by matrix
  bool has_cuts_ = false;
};

}  // namespace llmtrain

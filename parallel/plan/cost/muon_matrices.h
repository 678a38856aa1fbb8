// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/element_type.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/matrix_cuts.h"

namespace llmtrain {

// A matrix that Muon trains, on one rank before ZeRO and whole.
struct MatrixSize {
  double local = 0;  // elements
  double rows = 0, columns = 0;

  double whole() const { return rows * columns; }
  double shorter() const { return std::min(rows, columns); }
  double longer() const { return std::max(rows, columns); }
  bool operator==(const MatrixSize&) const = default;
};

// The matrices of one group, and what each ZeRO shard does with them (parallel/shard/states/sharded_matrices.h).
class MuonMatrices {
 public:
  // Per element of what ranks send each other and of what is orthogonalised.
  static constexpr double exact_bytes = element_bytes(ElementType::float32);
  // A figure of a matrix.
  using Value = std::function<double(const MatrixSize&)>;

  MuonMatrices(const Partition& partition, const StateGroup& group);

  bool is_of_experts() const { return is_of_experts_; }
  std::size_t shards() const { return cut_bytes_.size(); }
  // The ranks that hold parts of a matrix before ZeRO.
  std::size_t splits() const { return splits_; }
  // Sent by each shard, of matrices that ends of shards cut.
  const std::vector<double>& cut_bytes() const { return cut_bytes_; }
  // Sent by each rank of each shard, by shard and within it by rank, of matrices that several ranks hold parts of: its
  // parts of those that others work on, and its results.
  std::vector<double> split_bytes() const;
  // By shard: the largest value of a matrix that it works on.
  std::vector<double> largest(const Value& value) const;
  // By shard: the sum of the largest values among the matrices that its ranks work on at a time, one each.
  std::vector<double> sums(const Value& value) const;

 private:
  void sort(const MatrixCuts& cuts, const std::vector<std::uint32_t>& size_of);
  std::vector<double> values(const Value& value) const;
  // Calls visit(sizes of the matrices) for those that the ranks of a shard work on at a time.
  template <class Visit>
  void for_batches(std::size_t shard, Visit visit) const;

  bool is_of_experts_;
  std::size_t splits_;
  std::vector<double> cut_bytes_;
  std::vector<MatrixSize> sizes_;  // those that differ: of thousands of matrices, a few
  // Index into sizes_ of each matrix, by shard: first those that it has all of, then the cut ones.
  std::vector<std::uint32_t> sorted_;
  std::vector<std::size_t> begins_;  // in sorted_: of shard 0's whole matrices, of its cut ones, of shard 1's whole, …
};

// All groups that Muon trains. Most stages of a pipeline have equal ones, which are examined once.
class MuonGroups {
 public:
  explicit MuonGroups(const Partition& partition);

  struct Group {
    const StateGroup& group;
    MuonMatrices matrices;
  };
  // Those that differ. They refer to the partition.
  const std::vector<Group>& distinct() const { return distinct_; }
  // How many groups equal to each of these a pipeline rank has.
  const std::vector<std::size_t>& counts(std::size_t rank) const { return counts_[rank]; }
  std::size_t ranks() const { return counts_.size(); }

 private:
  std::size_t index_of(const Partition& partition, const StateGroup& group);

  std::vector<Group> distinct_;
  std::vector<std::vector<std::size_t>> counts_;
};

// Pieces of the file of a rank's states (parallel/layout/state_pieces.h) that are in memory at once while Muon updates
// matrices (parallel/shard/states/offload/matrix_states.h).
struct HeldPieces {
  std::int64_t count = 0;
  std::int64_t bytes = 0;

  void join(const HeldPieces& other) {
    count = std::max(count, other.count);
    bytes = std::max(bytes, other.bytes);
  }
};

// The most of a group's, by shard. `is_gpu`: whether matrices go to a GPU, from which those before the one at work are
// still on their way to their pieces.
std::vector<HeldPieces> held_pieces(const Partition& partition, const StateGroup& group, bool is_gpu);

// Memory of the host for pieces beside a GPU: for as many as any group of a pipeline rank has at once, each as large as
// the largest.
struct PieceMemory {
  std::int64_t count = 0;
  std::int64_t bytes = 0;  // of each
};
PieceMemory piece_memory(const Partition& partition, std::int64_t pipeline_rank);

}  // namespace llmtrain

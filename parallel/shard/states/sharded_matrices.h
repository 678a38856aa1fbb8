// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/sharding.h"
#include "core/optim/whole_matrices.h"
#include "core/parameters/parameter_store.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/layout/matrix_cuts.h"
#include "parallel/layout/state_groups.h"
#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// The matrices of one group of a stage's parameters, of which a rank may own a part: under ZeRO a range of the rows and
// columns in memory, on tensor ranks some rows or columns. Each routed expert's matrices are matrices of their own.
//
// Each matrix is transformed once among the ranks that share it. Those whose ZeRO shards cut it send their parts to its
// home (MatrixCuts), all at once and while other matrices are transformed. Tensor ranks take as many matrices as they
// are, one each, of which the others send them their parts. Results go back the same way.
class ShardedMatrices final : public WholeMatrices {
 public:
  // Flat memory is that of the elements `owned` by this rank. The graph must outlive this.
  ShardedMatrices(const Graph& graph, const ParameterStore& store, const StateGroup& group, const RankGroups& ranks,
                  FlatInterval owned);

  void for_each(const Read& read, const Transform& transform, const Write& write) const override;

 private:
  // The last two axes of a parameter alone: all its matrices are split alike.
  struct Box {
    std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  };
  struct Parts {
    std::int64_t rows = 0, columns = 0;  // of the whole matrix
    std::vector<Box> boxes;              // by the position of the ranks that split it
  };
  // Parts of cut matrices, on their way to the matrices' homes until the handle is done.
  struct CutParts {
    std::vector<std::int64_t> input, output;  // elements sent to and received from each shard's rank
    at::Tensor sent, received;
    Handle handle;  // last: it is done with the tensors' memory before they go
  };
  // A matrix as this rank has it without ZeRO, flat: what is transformed, and the result.
  using Local = std::function<at::Tensor(std::size_t matrix)>;
  using Take = std::function<void(std::size_t matrix, const at::Tensor& result)>;

  const FlatInterval& elements(std::size_t matrix) const { return cuts_.matrices()[matrix]; }
  // Calls visit(shard, elements) for what this rank sends to the homes of other shards, or receives at its own.
  enum class Way { to_homes, here };
  void for_parts(Way way, const std::function<void(std::size_t shard, const FlatInterval&)>& visit) const;
  CutParts start_exchange(const Read& read) const;
  at::Tensor joined(std::size_t matrix, const CutParts& cut, const Read& read) const;
  void return_results(CutParts cut, const std::vector<at::Tensor>& results, const Write& write) const;
  void transform_each(std::span<const std::size_t> matrices, const Local& local, const Transform& transform,
                      const Take& take) const;
  void transform_batch(std::span<const std::size_t> batch, const Local& local, const Transform& transform,
                       const Take& take) const;
  // Transforms the whole of a split matrix, whose parts follow each other by position, and cuts it into such parts
  // again, in their place.
  void transform_parts(std::size_t matrix, const at::Tensor& parts, const Transform& transform) const;

  DataParallel data_;
  std::int64_t shard_;
  std::optional<RowParallel> splits_;  // the ranks that split a matrix; none where it is whole
  FlatInterval owned_;
  MatrixCuts cuts_;
  std::vector<Parts> parts_;           // by the store's ranges
  std::vector<std::size_t> parts_of_;  // by matrix: index into parts_
};

}  // namespace llmtrain

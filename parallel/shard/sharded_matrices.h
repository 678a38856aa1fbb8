// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/sharding.h"
#include "core/optim/whole_matrices.h"
#include "core/parameters/parameter_store.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/layout/matrix_cuts.h"
#include "parallel/layout/stages.h"
#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// The matrices of one group of a stage's parameters, of which a rank may own a part: under ZeRO a range of the rows and
// columns in memory, on tensor ranks some rows or columns. Each routed expert's matrices are matrices of their own.
//
// Ranks whose ZeRO shards share matrices send each other their parts of these (MatrixCuts), all at once and while other
// matrices are transformed; tensor ranks gather one matrix at a time, of which each then transforms the whole. So what
// this needs beside flat memory is one matrix, and the parts of the two that the ends of a shard cut.
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
  // What other ranks have of this rank's matrices: on its way until the handle is done.
  struct CutParts {
    struct Received {
      FlatInterval elements;   // of the store
      std::int64_t begin = 0;  // in `received`
    };
    std::vector<Received> received_parts;
    at::Tensor sent, received;
    Handle handle;  // last: it is done with the tensors' memory before they go
  };

  CutParts start_exchange(const Read& read) const;
  // A cut matrix as this rank would hold it without ZeRO, flat.
  at::Tensor joined(std::size_t matrix, const CutParts& cut, const Read& read) const;
  // The whole matrix [rows, columns] from such a one.
  at::Tensor gathered(const at::Tensor& local, const Parts& parts) const;
  void transform_matrix(std::size_t matrix, const at::Tensor& local, const Transform& transform,
                        const Write& write) const;

  DataParallel data_;
  std::int64_t shard_;
  std::int64_t position_ = 0;                                 // among the ranks that split a matrix
  std::function<at::Tensor(const at::Tensor& part)> gather_;  // their parts, by position; none where it is whole
  FlatInterval owned_;
  MatrixCuts cuts_;
  std::vector<Parts> parts_;           // by the store's ranges
  std::vector<std::size_t> parts_of_;  // by matrix: index into parts_
};

}  // namespace llmtrain

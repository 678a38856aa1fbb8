// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "parallel/layout/mesh.h"
#include "parallel/layout/state_groups.h"

namespace llmtrain {

// Where the states of experts are cut finer than their products (Mesh::expert_joined), a rank computes with several
// slices of the inner width of each expert, side by side in one matrix: so the states serve different splits of the
// products (the adaptive parallelism of Hwang et al., arXiv 2206.03382, section 3.1). The columns of the inner width
// may come in any order, as long as all matrices of an expert have the same.

// What a rank holds of the parameters that another one computes with.
struct StoredPart {
  std::int64_t slice = 0;  // of those that are joined
  std::int64_t shard = 0;  // of ZeRO, of this slice
};

// The parts of the ranks that gather the same slices as `rank`: GroupKind::expert_shard of mesh_in_use().
std::vector<StoredPart> stored_parts(const Mesh& mesh, int rank);

// Rows of equal length in two flat memories, in elements; one after another in the first, `joined_stride` apart in the
// second.
struct RowCopy {
  std::int64_t packed = 0, joined = 0;  // the first row's begin
  std::int64_t rows = 0, length = 0;
  std::int64_t joined_stride = 0;

  bool operator==(const RowCopy&) const = default;
};

// How the parts of a group of experts' parameters, by rank one after another and each as long as the group's shards,
// correspond to the parameters with joined slices, one after another without padding. What is not cut, as the bias of
// an expert's output, is in every slice, and in the joined memory once.
std::vector<RowCopy> joined_rows(const Graph& graph, const StateGroup& group, const Mesh& mesh,
                                 const std::vector<StoredPart>& parts);

}  // namespace llmtrain

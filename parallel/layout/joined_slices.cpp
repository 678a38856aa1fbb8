// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/joined_slices.h"

#include <algorithm>
#include <cstddef>

namespace llmtrain {
namespace {

// A parameter in a slice's flat memory, and its slice's place in the joined one.
struct CutParameter {
  FlatInterval stored;
  std::int64_t row = 0;  // elements that are next to each other in both memories
  std::int64_t joined = 0, joined_stride = 0;
};

std::int64_t elements_from(const std::vector<std::int64_t>& shape, std::size_t axis) {
  std::int64_t elements = 1;
  for (std::size_t i = axis; i < shape.size(); ++i) elements *= shape[i];
  return elements;
}

// The parameters of a group as the slice at place `slice` has them.
std::vector<CutParameter> parameters_of(const Graph& graph, const StateGroup& group, const Mesh& mesh,
                                        std::int64_t slice) {
  std::vector<CutParameter> cuts;
  std::int64_t stored = 0, joined = 0;
  for (const std::size_t index : group.parameters) {
    const Parameter& parameter = graph.parameters[index];
    const LocalPart part = local_part(parameter, {shard_degrees(mesh)});
    const bool is_cut = parameter.split.kind != Split::Kind::none;
    const std::int64_t elements = part.elements();
    const std::int64_t row = is_cut ? elements_from(part.shape, parameter.split.axis) : elements;
    const std::int64_t joins = is_cut ? mesh.expert_joined : 1;
    cuts.push_back({{stored, stored + elements}, row, joined + (is_cut ? slice * row : 0), joins * row});
    stored += elements;
    joined += joins * elements;
  }
  return cuts;
}

// The elements [begin, end) of a parameter, whose first is at `packed`.
void add_rows(std::vector<RowCopy>& copies, const CutParameter& cut, FlatInterval elements, std::int64_t packed) {
  while (elements.count() > 0) {
    const std::int64_t row = elements.begin / cut.row, column = elements.begin % cut.row;
    const std::int64_t rows = column == 0 ? elements.count() / cut.row : 0;
    RowCopy copy{packed, cut.joined + row * cut.joined_stride + column, rows, cut.row, cut.joined_stride};
    // The rest of a row, or its begin.
    if (rows == 0) {
      copy.rows = 1;
      copy.length = std::min(cut.row - column, elements.count());
    }
    copies.push_back(copy);
    packed += copy.rows * copy.length;
    elements.begin += copy.rows * copy.length;
  }
}

}  // namespace

std::vector<StoredPart> stored_parts(const Mesh& mesh, int rank) {
  std::vector<StoredPart> parts;
  std::vector<int> first_ranks;  // of the ranks that share a slice
  for (const int member : group_members(mesh_in_use(mesh), GroupKind::expert_shard, rank)) {
    const std::vector<int> sharing = group_members(mesh, GroupKind::expert_shard, member);
    const auto slice = std::find(first_ranks.begin(), first_ranks.end(), sharing.front());
    parts.push_back({slice - first_ranks.begin(), std::find(sharing.begin(), sharing.end(), member) - sharing.begin()});
    if (slice == first_ranks.end()) first_ranks.push_back(sharing.front());
  }
  return parts;
}

std::vector<RowCopy> joined_rows(const Graph& graph, const StateGroup& group, const Mesh& mesh,
                                 const std::vector<StoredPart>& parts) {
  std::vector<RowCopy> copies;
  std::int64_t packed = 0;
  for (const StoredPart& part : parts) {
    const FlatInterval held = group.flat().padded_shard(part.shard);
    for (const CutParameter& cut : parameters_of(graph, group, mesh, part.slice)) {
      const FlatInterval here = intersection(held, cut.stored);
      add_rows(copies, cut, {here.begin - cut.stored.begin, here.end - cut.stored.begin},
               packed + here.begin - held.begin);
    }
    packed += held.count();
  }
  return copies;
}

}  // namespace llmtrain

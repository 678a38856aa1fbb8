// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/matrix_cuts.h"

#include <algorithm>
#include <utility>

namespace llmtrain {

std::int64_t local_matrices(const Parameter& parameter, const ShardDegrees& degrees) {
  return parameter.has_expert_axis ? parameter.shape.front() / degrees.expert : 1;
}

std::vector<FlatInterval> matrices_of(const Graph& graph, const StateGroup& group, const ShardDegrees& degrees) {
  std::int64_t all = 0;
  for (const std::size_t index : group.parameters) all += local_matrices(graph.parameters[index], degrees);
  std::vector<FlatInterval> matrices(static_cast<std::size_t>(all));
  auto next = matrices.begin();
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const std::int64_t count = local_matrices(graph.parameters[group.parameters[i]], degrees);
    const std::int64_t elements = group.sizes[i] / count;
    for (std::int64_t matrix = 0; matrix < count; ++matrix, begin += elements) *next++ = {begin, begin + elements};
  }
  return matrices;
}

MatrixCuts::MatrixCuts(std::vector<FlatInterval> matrices, FlatShards shards)
    : matrices_(std::move(matrices)), shards_(shards) {
  const std::int64_t part = shards_.part();
  std::vector<std::int64_t> work(static_cast<std::size_t>(shards_.ranks));  // elements
  homes_.reserve(matrices_.size());
  auto first = work.begin();  // of the shards that have elements of the matrix
  std::int64_t next = part;   // where the one after it begins
  for (const FlatInterval& matrix : matrices_) {
    for (; next <= matrix.begin; next += part) ++first;
    auto last = first;
    for (std::int64_t end = next; end < matrix.end; end += part) ++last;
    const auto least = std::min_element(first, last + 1);
    *least += matrix.count();
    homes_.push_back({least - work.begin(), first != last});
    has_cuts_ = has_cuts_ || first != last;
  }
}

MatrixCuts::Range MatrixCuts::touched_by(std::int64_t shard) const {
  const FlatInterval place = shards_.padded_shard(shard);
  const auto first =
      std::ranges::partition_point(matrices_, [&](const FlatInterval& matrix) { return matrix.end <= place.begin; });
  const auto last =
      std::ranges::partition_point(matrices_, [&](const FlatInterval& matrix) { return matrix.begin < place.end; });
  return {static_cast<std::size_t>(first - matrices_.begin()), static_cast<std::size_t>(last - matrices_.begin())};
}

std::vector<std::size_t> MatrixCuts::at_home(std::int64_t shard, Those those) const {
  std::vector<std::size_t> list;
  const Range range = touched_by(shard);
  for (std::size_t matrix = range.first; matrix < range.last; ++matrix)
    if (home(matrix) == shard && is_cut(matrix) == (those == Those::cut)) list.push_back(matrix);
  return list;
}

std::vector<FlatInterval> MatrixCuts::sent(std::int64_t from, std::int64_t to) const {
  std::vector<FlatInterval> intervals;
  const Range range = touched_by(from);
  for (std::size_t matrix = range.first; matrix < range.last; ++matrix)
    if (from != to && home(matrix) == to)
      intervals.push_back(intersection(matrices_[matrix], shards_.padded_shard(from)));
  return intervals;
}

std::vector<std::int64_t> MatrixCuts::exchanged_elements() const {
  std::vector<std::int64_t> elements(static_cast<std::size_t>(shards_.ranks));
  if (!has_cuts_) return elements;
  for (std::size_t matrix = 0; matrix < matrices_.size(); ++matrix) {
    if (!is_cut(matrix)) continue;
    const FlatInterval& place = matrices_[matrix];
    const std::int64_t last = (place.end - 1) / shards_.part();
    for (std::int64_t shard = place.begin / shards_.part(); shard <= last; ++shard) {
      const std::int64_t own = intersection(place, shards_.padded_shard(shard)).count();
      elements[static_cast<std::size_t>(shard)] += home(matrix) == shard ? place.count() - own : own;
    }
  }
  return elements;
}

}  // namespace llmtrain

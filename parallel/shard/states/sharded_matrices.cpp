// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/sharded_matrices.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "parallel/shard/states/flat_piece.h"

namespace llmtrain {
namespace {

std::int64_t from_end(const std::vector<std::int64_t>& numbers, std::size_t place) {
  return numbers[numbers.size() - place];
}

}  // namespace

ShardedMatrices::ShardedMatrices(const Graph& graph, const ParameterStore& store, const StateGroup& group,
                                 const RankGroups& ranks, FlatInterval owned)
    : data_(ranks.data_of(group.kind)),
      // At stage 0 there is one shard, and every rank owns it.
      shard_(group.zero_stage == 0 ? 0 : data_.shard()),
      owned_(owned),
      cuts_(matrices_of(graph, group, shard_degrees(ranks.mesh)), group.flat()) {
  const bool is_experts = group.kind == StateGroup::Kind::experts;
  ShardPlace place = ranks.shard_place();
  const std::int64_t splits = is_experts ? place.degrees.expert_tensor : place.degrees.tensor;
  if (splits > 1) splits_ = is_experts ? ranks.mixture.slices() : ranks.tensor.row_ranks();
  for (const FlatRange& range : store.ranges()) {
    const Parameter& parameter = graph.parameters[range.parameter];
    Parts parts{from_end(parameter.shape, 2), from_end(parameter.shape, 1), {}};
    for (std::int64_t position = 0; position < splits; ++position) {
      (is_experts ? place.expert_tensor : place.tensor) = position;
      const LocalPart part = local_part(parameter, place);
      parts.boxes.push_back(
          {from_end(part.offset, 2), from_end(part.offset, 1), from_end(part.shape, 2), from_end(part.shape, 1)});
    }
    parts_of_.insert(parts_of_.end(), static_cast<std::size_t>(local_matrices(parameter, place.degrees)),
                     parts_.size());
    parts_.push_back(std::move(parts));
  }
}

void ShardedMatrices::for_each(const Read& read, const Transform& transform, const Write& write) const {
  // The parts of cut matrices travel while the whole ones are transformed.
  CutParts cut = start_exchange(read);
  transform_each(
      cuts_.at_home(shard_, MatrixCuts::Those::whole),
      [&](std::size_t matrix) {
        return read(elements(matrix).begin - owned_.begin, elements(matrix).end - owned_.begin);
      },
      transform,
      [&](std::size_t matrix, const at::Tensor& result) { write(elements(matrix).begin - owned_.begin, result); });
  if (!cuts_.has_cuts()) return;
  cut.handle.wait();
  std::vector<at::Tensor> results;
  transform_each(
      cuts_.at_home(shard_, MatrixCuts::Those::cut), [&](std::size_t matrix) { return joined(matrix, cut, read); },
      transform, [&](std::size_t, const at::Tensor& result) { results.push_back(result); });
  return_results(std::move(cut), results, write);
}

void ShardedMatrices::for_parts(Way way, const std::function<void(std::size_t, const FlatInterval&)>& visit) const {
  for (std::int64_t other = 0; other < data_.shards(); ++other)
    for (const FlatInterval& part : way == Way::here ? cuts_.sent(other, shard_) : cuts_.sent(shard_, other))
      visit(static_cast<std::size_t>(other), part);
}

ShardedMatrices::CutParts ShardedMatrices::start_exchange(const Read& read) const {
  CutParts cut;
  if (!cuts_.has_cuts()) return cut;
  const auto shards = static_cast<std::size_t>(data_.shards());
  cut.input.resize(shards);
  cut.output.resize(shards);
  // cat() below needs a tensor, also where this shard sends nothing.
  std::vector<at::Tensor> sent{read(0, 0)};
  std::int64_t received = 0;
  for_parts(Way::to_homes, [&](std::size_t shard, const FlatInterval& part) {
    sent.push_back(read(part.begin - owned_.begin, part.end - owned_.begin));
    cut.input[shard] += part.count();
  });
  for_parts(Way::here, [&](std::size_t shard, const FlatInterval& part) {
    cut.output[shard] += part.count();
    received += part.count();
  });
  cut.sent = at::cat(sent);
  cut.received = at::empty({received}, cut.sent.options());
  cut.handle = data_.exchange(cut.sent, cut.input, cut.received, cut.output);
  return cut;
}

at::Tensor ShardedMatrices::joined(std::size_t matrix, const CutParts& cut, const Read& read) const {
  const FlatInterval& all = elements(matrix);
  at::Tensor whole = at::empty({all.count()}, cut.received.options());
  const auto place = [&](const FlatInterval& part) { return piece_of(whole, part, all); };
  const FlatInterval own = intersection(all, owned_);
  place(own).copy_(read(own.begin - owned_.begin, own.end - owned_.begin));
  std::int64_t begin = 0;
  for_parts(Way::here, [&](std::size_t, const FlatInterval& part) {
    if (intersection(part, all).count() > 0) place(part).copy_(cut.received.slice(0, begin, begin + part.count()));
    begin += part.count();
  });
  return whole;
}

void ShardedMatrices::return_results(CutParts cut, const std::vector<at::Tensor>& results, const Write& write) const {
  const std::vector<std::size_t> homes = cuts_.at_home(shard_, MatrixCuts::Those::cut);
  std::int64_t begin = 0;
  // Into the memory in which the parts came, and their results into that from which they went.
  for_parts(Way::here, [&](std::size_t, const FlatInterval& part) {
    for (std::size_t i = 0; i < homes.size(); ++i) {
      const FlatInterval& all = elements(homes[i]);
      if (intersection(part, all).count() > 0)
        cut.received.slice(0, begin, begin + part.count()).copy_(piece_of(results[i], part, all));
    }
    begin += part.count();
  });
  // The own parts are written while the others' results travel.
  cut.handle = data_.exchange(cut.received, cut.output, cut.sent, cut.input);
  for (std::size_t i = 0; i < homes.size(); ++i) {
    const FlatInterval& all = elements(homes[i]);
    const FlatInterval own = intersection(all, owned_);
    write(own.begin - owned_.begin, piece_of(results[i], own, all));
  }
  cut.handle.wait();
  begin = 0;
  for_parts(Way::to_homes, [&](std::size_t, const FlatInterval& part) {
    write(part.begin - owned_.begin, cut.sent.slice(0, begin, begin + part.count()));
    begin += part.count();
  });
}

void ShardedMatrices::transform_each(std::span<const std::size_t> matrices, const Local& local,
                                     const Transform& transform, const Take& take) const {
  if (splits_) {
    const auto batch = static_cast<std::size_t>(splits_->ranks());
    for (std::size_t first = 0; first < matrices.size(); first += batch)
      transform_batch(matrices.subspan(first, std::min(batch, matrices.size() - first)), local, transform, take);
    return;
  }
  for (const std::size_t matrix : matrices) {
    const Parts& parts = parts_[parts_of_[matrix]];
    // What was transformed is released before the result is taken.
    const at::Tensor result = transform(local(matrix).view({parts.rows, parts.columns})).contiguous().flatten();
    take(matrix, result);
  }
}

void ShardedMatrices::transform_batch(std::span<const std::size_t> batch, const Local& local,
                                      const Transform& transform, const Take& take) const {
  const auto ranks = static_cast<std::size_t>(splits_->ranks()),
             position = static_cast<std::size_t>(splits_->position());
  // By position of the rank that transforms a matrix, and by that of those with its parts.
  std::vector<std::int64_t> sent_counts(ranks), part_counts(ranks);
  std::vector<at::Tensor> locals;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    locals.push_back(local(batch[i]));
    sent_counts[i] = elements(batch[i]).count();
  }
  if (position < batch.size()) part_counts.assign(ranks, elements(batch[position]).count());
  const at::Tensor sent = at::cat(std::exchange(locals, {}));
  at::Tensor parts = at::empty({std::reduce(part_counts.begin(), part_counts.end())}, sent.options());
  splits_->exchange(sent, sent_counts, parts, part_counts);
  // One matrix for each rank: none does the work of another, and all work at the same time.
  if (position < batch.size()) transform_parts(batch[position], parts, transform);
  // The results come into the memory of what was sent.
  splits_->exchange(parts, part_counts, sent, sent_counts);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    take(batch[i], sent.slice(0, begin, begin + sent_counts[i]));
    begin += sent_counts[i];
  }
}

void ShardedMatrices::transform_parts(std::size_t matrix, const at::Tensor& parts, const Transform& transform) const {
  const Parts& split = parts_[parts_of_[matrix]];
  const std::int64_t part = elements(matrix).count();
  at::Tensor whole = at::empty({split.rows, split.columns}, parts.options());
  const auto part_of = [&](std::size_t i) {
    const auto begin = static_cast<std::int64_t>(i) * part;
    return parts.slice(0, begin, begin + part).view({split.boxes[i].rows, split.boxes[i].columns});
  };
  const auto box_of = [](const at::Tensor& matrix_of_boxes, const Box& box) {
    return matrix_of_boxes.narrow(0, box.row, box.rows).narrow(1, box.column, box.columns);
  };
  for (std::size_t i = 0; i < split.boxes.size(); ++i) box_of(whole, split.boxes[i]).copy_(part_of(i));
  whole = transform(whole);
  for (std::size_t i = 0; i < split.boxes.size(); ++i) part_of(i).copy_(box_of(whole, split.boxes[i]));
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/sharded_matrices.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <utility>

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
  position_ = place.tensor % splits;
  for (const FlatRange& range : store.ranges()) {
    const Parameter& parameter = graph.parameters[range.parameter];
    Parts parts{from_end(parameter.shape, 2), from_end(parameter.shape, 1), {}};
    for (place.tensor = 0; place.tensor < splits; ++place.tensor) {
      const LocalPart part = local_part(graph.model, parameter, place);
      parts.boxes.push_back(
          {from_end(part.offset, 2), from_end(part.offset, 1), from_end(part.shape, 2), from_end(part.shape, 1)});
    }
    parts_of_.insert(parts_of_.end(), static_cast<std::size_t>(local_matrices(parameter, place.degrees)),
                     parts_.size());
    parts_.push_back(std::move(parts));
  }
  if (splits == 1) return;
  gather_ = [tensor = ranks.tensor](const at::Tensor& part) { return tensor.gather_rows(part); };
  if (is_experts)
    gather_ = [mixture = ranks.mixture](const at::Tensor& part) { return mixture.ranks().features->gather_rows(part); };
}

void ShardedMatrices::for_each(const Read& read, const Transform& transform, const Write& write) const {
  CutParts cut = start_exchange(read);
  const MatrixCuts::Range range = cuts_.touched_by(shard_);
  for (std::size_t matrix = range.first; matrix < range.last; ++matrix) {
    const FlatInterval elements = cuts_.matrices()[matrix];
    if (!cuts_.is_cut(matrix))
      transform_matrix(matrix, read(elements.begin - owned_.begin, elements.end - owned_.begin), transform, write);
  }
  cut.handle.wait();
  for (std::size_t matrix = range.first; matrix < range.last; ++matrix)
    if (cuts_.is_cut(matrix)) transform_matrix(matrix, joined(matrix, cut, read), transform, write);
}

ShardedMatrices::CutParts ShardedMatrices::start_exchange(const Read& read) const {
  CutParts cut;
  if (!cuts_.has_cuts()) return cut;
  std::vector<at::Tensor> sent{read(0, 0)};
  std::vector<std::int64_t> input, output;
  std::int64_t received = 0;
  for (std::int64_t other = 0; other < data_.shards(); ++other) {
    input.push_back(0);
    output.push_back(0);
    if (other == shard_) continue;
    for (const FlatInterval& part : cuts_.sent(shard_, other)) {
      sent.push_back(read(part.begin - owned_.begin, part.end - owned_.begin));
      input.back() += part.count();
    }
    for (const FlatInterval& part : cuts_.sent(other, shard_)) {
      cut.received_parts.push_back({part, received});
      received += part.count();
      output.back() += part.count();
    }
  }
  cut.sent = at::cat(sent);
  cut.received = at::empty({received}, cut.sent.options());
  cut.handle = data_.exchange(cut.sent, input, cut.received, output);
  return cut;
}

at::Tensor ShardedMatrices::joined(std::size_t matrix, const CutParts& cut, const Read& read) const {
  const FlatInterval elements = cuts_.matrices()[matrix];
  at::Tensor whole = at::empty({elements.count()}, cut.received.options());
  const auto place = [&](const FlatInterval& part) {
    return whole.slice(0, part.begin - elements.begin, part.end - elements.begin);
  };
  const FlatInterval own = intersection(elements, owned_);
  place(own).copy_(read(own.begin - owned_.begin, own.end - owned_.begin));
  for (const auto& [part, begin] : cut.received_parts)
    if (intersection(part, elements).count() > 0) place(part).copy_(cut.received.slice(0, begin, begin + part.count()));
  return whole;
}

void ShardedMatrices::transform_matrix(std::size_t matrix, const at::Tensor& local, const Transform& transform,
                                       const Write& write) const {
  const Parts& parts = parts_[parts_of_[matrix]];
  const at::Tensor result = transform(gathered(local, parts));
  const Box& box = parts.boxes[static_cast<std::size_t>(position_)];
  const at::Tensor here = result.narrow(0, box.row, box.rows).narrow(1, box.column, box.columns).contiguous().flatten();
  const FlatInterval elements = cuts_.matrices()[matrix], own = intersection(elements, owned_);
  write(own.begin - owned_.begin, here.slice(0, own.begin - elements.begin, own.end - elements.begin));
}

at::Tensor ShardedMatrices::gathered(const at::Tensor& local, const Parts& parts) const {
  const Box& own = parts.boxes.front();
  const at::Tensor part = local.contiguous().view({own.rows, own.columns});
  if (!gather_) return part;
  const at::Tensor all = gather_(part);
  at::Tensor whole = at::empty({parts.rows, parts.columns}, part.options());
  for (std::size_t position = 0; position < parts.boxes.size(); ++position) {
    const Box& box = parts.boxes[position];
    whole.narrow(0, box.row, box.rows)
        .narrow(1, box.column, box.columns)
        .copy_(all.narrow(0, static_cast<std::int64_t>(position) * box.rows, box.rows));
  }
  return whole;
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/joined_experts.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

// The two ends of a copy of rows, as matrices.
struct RowViews {
  at::Tensor packed, joined;
};

RowViews views_of(const RowCopy& copy, const at::Tensor& packed, const at::Tensor& joined) {
  return {packed.as_strided({copy.rows, copy.length}, {copy.length, 1}, copy.packed),
          joined.as_strided({copy.rows, copy.length}, {copy.joined_stride, 1}, copy.joined)};
}

ShardPlace place_of(const ExpertSplit& split) { return {shard_degrees(mesh_in_use(split.mesh))}; }

}  // namespace

JoinedExperts::JoinedExperts(const Graph& graph, const StateGroup& group, const RankGroups& ranks)
    : graph_(graph),
      splits_(*ranks.mixture.splits()),
      communicator_(ranks.communicator()),
      part_(group.shard()),
      store_(graph, group.parameters, place_of(split())),
      split_of_store_(splits_.current()) {
  for (const ExpertSplit& each : splits_.all()) rows_.push_back(joined_rows(graph, group, each.mesh, each.parts));
}

std::int64_t JoinedExperts::packed_elements() const { return split().gathering.size() * part_; }

void JoinedExperts::follow_split() {
  if (split_of_store_ == splits_.current()) return;
  split_of_store_ = splits_.current();
  store_.move_to(graph_, place_of(split()));
}

void JoinedExperts::gather(const at::Tensor& owned, WeightFetch* fetch) {
  follow_split();
  const Group& ranks = split().gathering;
  packed_.start(fetch, owned, packed_elements(), ranks.position(), [&](const at::Tensor& part, const at::Tensor& all) {
    return communicator_.all_gather(ranks, Purpose::data_parallel, array_of(part), array_of(all));
  });
}

void JoinedExperts::finish_gather() {
  if (!packed_.has_started()) return;
  const at::Tensor packed = packed_.take();
  if (!joins()) return store_.attach_weights(packed);
  const at::Tensor joined = at::empty({store_.elements()}, packed.options());
  for (const RowCopy& copy : rows()) {
    const RowViews views = views_of(copy, packed, joined);
    views.joined.copy_(views.packed);
  }
  store_.attach_weights(joined);
}

void JoinedExperts::free() {
  packed_.drop();
  store_.detach_weights();
}

at::Tensor JoinedExperts::make_gradients(const at::TensorOptions& options) const {
  if (joins()) return at::empty({store_.elements()}, options);
  at::Tensor gradients = at::empty({packed_elements()}, options);
  gradients.slice(0, store_.elements()).zero_();  // the padding, which no module writes
  return gradients;
}

at::Tensor JoinedExperts::pack(at::Tensor gradients) const {
  if (!joins()) return gradients;
  at::Tensor packed = at::zeros({packed_elements()}, gradients.options());
  for (const RowCopy& copy : rows()) {
    const RowViews views = views_of(copy, packed, gradients);
    views.packed.copy_(views.joined);
  }
  return packed;
}

Handle JoinedExperts::scatter_sum(const at::Tensor& packed, const at::Tensor& part) const {
  return communicator_.reduce_scatter(split().gathering, Purpose::data_parallel, array_of(packed), array_of(part));
}

std::unique_ptr<JoinedExperts> make_joined_experts(const Graph& graph, const StateGroup& group,
                                                   const RankGroups& ranks) {
  if (group.kind != StateGroup::Kind::experts || ranks.mixture.splits() == nullptr) return nullptr;
  return std::make_unique<JoinedExperts>(graph, group, ranks);
}

}  // namespace llmtrain

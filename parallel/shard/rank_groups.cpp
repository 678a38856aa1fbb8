// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/rank_groups.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

// Largest magnitudes in GPU memory as integers, which order as they do and of which NaN's are the largest: NCCL's
// maximum of floats loses a NaN.
Array magnitudes_of(const at::Tensor& largest) { return array_of(largest.is_cpu() ? largest : largest.view(at::kInt)); }

Group make_group(Communicator& communicator, const Layout& layout, const char* name, GroupKind kind,
                 GroupUse use = GroupUse::collectives) {
  return communicator.make_group(name, group_members(layout.mesh(), kind, communicator.rank()), use);
}

// For each number of copies the tensor ranks that hold the same repeated units as this one.
std::map<std::int64_t, Group> groups_of_copies(Communicator& communicator, const Layout& layout) {
  std::map<std::int64_t, Group> groups;
  for (const std::int64_t copies : copy_counts(layout.graph(), layout.mesh().tensor))
    groups.emplace(copies,
                   communicator.make_group("copies", layout.partition().copies_of(communicator.rank(), copies)));
  return groups;
}

// The exchanged tensor [S, B, 2, kv_heads, D]: positions are the outermost dimension, so that the ranks' chunks are
// contiguous and arrive in order without a copy.
at::Tensor exchanged(const at::Tensor& own, std::int64_t positions) {
  return at::empty({positions, own.size(0), 2, own.size(2), own.size(3)}, own.options());
}

// Its keys (0) or values (1) as [B, S, kv_heads, D].
at::Tensor view_of(const at::Tensor& both, std::int64_t which) { return both.select(2, which).transpose(0, 1); }

}  // namespace

DataParallel::DataParallel(Communicator& communicator, const Layout& layout, Parameters parameters)
    : communicator_(&communicator) {
  if (parameters == Parameters::experts) {
    data_ = make_group(communicator, layout, "expert data", GroupKind::expert_data, GroupUse::background);
    shard_ = make_group(communicator, layout, "expert shard", GroupKind::expert_shard, GroupUse::background);
    replica_ = make_group(communicator, layout, "expert replica", GroupKind::expert_replica, GroupUse::background);
    return;
  }
  data_ = make_group(communicator, layout, "data", GroupKind::data, GroupUse::background);
  shard_ = make_group(communicator, layout, "shard", GroupKind::shard, GroupUse::background);
  replica_ = make_group(communicator, layout, "replica", GroupKind::replica, GroupUse::background);
}

Handle DataParallel::sum(const at::Tensor& whole) const {
  return communicator_->all_reduce(data_, Purpose::data_parallel, array_of(whole));
}

Handle DataParallel::sum_replicas(const at::Tensor& part) const {
  return communicator_->all_reduce(replica_, Purpose::data_parallel, array_of(part));
}

Handle DataParallel::largest(const at::Tensor& values) const {
  return communicator_->all_reduce(data_, Purpose::data_parallel, magnitudes_of(values), Reduction::max);
}

Handle DataParallel::scatter_sum(const at::Tensor& whole, const at::Tensor& part) const {
  return communicator_->reduce_scatter(shard_, Purpose::data_parallel, array_of(whole), array_of(part));
}

Handle DataParallel::gather(const at::Tensor& part, const at::Tensor& whole) const {
  return communicator_->all_gather(shard_, Purpose::data_parallel, array_of(part), array_of(whole));
}

Handle DataParallel::exchange(const at::Tensor& sent, std::span<const std::int64_t> input, const at::Tensor& received,
                              std::span<const std::int64_t> output) const {
  return communicator_->all_to_all_v(shard_, Purpose::data_parallel, array_of(sent), array_of(received),
                                     {input, output});
}

TensorParallel::TensorParallel(Communicator& communicator, const Layout& layout)
    : communicator_(&communicator),
      group_(make_group(communicator, layout, "tensor", GroupKind::tensor)),
      copies_(groups_of_copies(communicator, layout)),
      // Sequence parallelism (arXiv 2205.05198): between the matrices each tensor rank holds a part of the rows.
      rows_(layout.recipe().parallel.sequence ? ActivationRows::split : ActivationRows::whole) {}

void TensorParallel::sum(const at::Tensor& x) const {
  communicator_->all_reduce(group_, Purpose::tensor_parallel, array_of(x)).wait();
}

void TensorParallel::largest(const at::Tensor& x) const {
  communicator_->all_reduce(group_, Purpose::tensor_parallel, magnitudes_of(x), Reduction::max).wait();
}

at::Tensor TensorParallel::gather_rows(const at::Tensor& part, Purpose purpose) const {
  return RowParallel(*communicator_, group_, purpose).gather_rows(part);
}

at::Tensor TensorParallel::scatter_sum_rows(const at::Tensor& whole) const {
  return RowParallel(*communicator_, group_, Purpose::tensor_parallel).scatter_sum_rows(whole);
}

void TensorParallel::sum_copies(const at::Tensor& x, std::int64_t copies) const {
  communicator_->all_reduce(copies_.at(copies), Purpose::tensor_parallel, array_of(x)).wait();
}

TensorParts TensorParallel::parts() const { return {*communicator_, group_, Purpose::tensor_parallel}; }

TensorParts::TensorParts(Communicator& communicator, const Layout& layout)
    : TensorParts(communicator, make_group(communicator, layout, "expert parts", GroupKind::expert_parts),
                  Purpose::expert) {}

void TensorParts::sum(const at::Tensor& x) const { communicator_->all_reduce(group_, purpose_, array_of(x)).wait(); }

void TensorParts::largest(const at::Tensor& x) const {
  communicator_->all_reduce(group_, purpose_, magnitudes_of(x), Reduction::max).wait();
}

PipelineParallel::PipelineParallel(Communicator& communicator, const Layout& layout) : communicator_(&communicator) {
  const std::vector<int> ranks = group_members(layout.mesh(), GroupKind::pipeline, communicator.rank());
  // Messages of a group are matched in order, and the two directions interleave differently on sender and receiver:
  // each needs a group of its own.
  activations_ = communicator.make_group("pipeline activations", ranks, GroupUse::messages_on);
  gradients_ = communicator.make_group("pipeline gradients", ranks, GroupUse::messages_back);
  for (const std::vector<std::size_t>& holders : layout.partition().sharing_ranks()) {
    // Collective over its members only, so other ranks do not call it.
    if (!std::ranges::binary_search(holders, static_cast<std::size_t>(position()))) continue;
    std::vector<int> members;
    for (const std::size_t holder : holders) members.push_back(ranks[holder]);
    copies_.emplace(holders, communicator.make_group("pipeline copies", std::move(members)));
  }
}

Handle PipelineParallel::send(Channel channel, const at::Tensor& tensor, int position) const {
  return communicator_->send(group(channel), Purpose::pipeline, array_of(tensor), position);
}

Handle PipelineParallel::receive(Channel channel, const at::Tensor& tensor, int position) const {
  return communicator_->receive(group(channel), Purpose::pipeline, array_of(tensor), position);
}

Handle PipelineParallel::sum_copies(const std::vector<std::size_t>& holders, const at::Tensor& tensor) const {
  return communicator_->all_reduce(copies_.at(holders), Purpose::pipeline, array_of(tensor));
}

// Zigzag order, as in Megatron-LM and Llama 3: with causal masks an early and a late chunk together see as many keys on
// every rank.
kernels::SequencePart context_part(std::int64_t sequence_length, int position, int ranks) {
  if (ranks == 1) return {};
  const std::int64_t own = sequence_length / ranks, early = own / 2, late = own - early;
  kernels::SequencePart part{sequence_length, {}};
  if (early > 0) part.runs.push_back({position * early, early});
  part.runs.push_back({ranks * early + (ranks - 1 - position) * late, late});
  return part;
}

ContextParallel::ContextParallel(Communicator& communicator, const Layout& layout) : communicator_(&communicator) {
  const std::vector<int> ranks = group_members(layout.mesh(), GroupKind::context, communicator.rank());
  early_ = communicator.make_group("context", ranks);
  // Late chunks are in reverse rank order within the sequence; a reversed group gathers them in place.
  late_ = communicator.make_group("context, reversed", {ranks.rbegin(), ranks.rend()});
}

kernels::SequencePart ContextParallel::part(std::int64_t sequence_length) const {
  return context_part(sequence_length, position(), ranks());
}

std::vector<ContextParallel::Chunks> ContextParallel::chunks(const at::Tensor& both) const {
  const std::int64_t own = both.size(0) / ranks(), early = own / 2;
  std::vector<Chunks> result;
  const auto add = [&](const Group& group, std::int64_t first, std::int64_t own_first, std::int64_t length) {
    const at::Tensor whole = both.narrow(0, first, length * ranks());
    result.push_back({group, own_first, length, whole, whole.narrow(0, group.position() * length, length)});
  };
  if (early > 0) add(early_, 0, 0, early);
  add(late_, ranks() * early, early, own - early);
  return result;
}

KeysAndValues ContextParallel::gather(const KeysAndValues& own) const {
  // Keys and values together: one message of twice the size pays the latency once.
  const at::Tensor both = exchanged(own.key, own.key.size(1) * ranks());
  std::vector<Handle> handles;
  const std::vector<Chunks> all = chunks(both);
  for (const Chunks& chunk : all) {
    // Own chunks are written to their place first: the gather is in place.
    view_of(chunk.mine, 0).copy_(own.key.narrow(1, chunk.own_first, chunk.length));
    view_of(chunk.mine, 1).copy_(own.value.narrow(1, chunk.own_first, chunk.length));
  }
  communicator_->together([&] {
    for (const Chunks& chunk : all)
      handles.push_back(
          communicator_->all_gather(chunk.group, Purpose::context, array_of(chunk.mine), array_of(chunk.whole)));
  });
  for (Handle& handle : handles) handle.wait();
  return {view_of(both, 0), view_of(both, 1)};
}

void ContextParallel::largest(const at::Tensor& x) const {
  communicator_->all_reduce(early_, Purpose::context, magnitudes_of(x), Reduction::max).wait();
}

void ContextParallel::scatter_sum(KeysAndValues gradients, const KeysAndValues& own) const {
  const at::Tensor both = exchanged(gradients.key, gradients.key.size(1));
  view_of(both, 0).copy_(gradients.key);
  view_of(both, 1).copy_(gradients.value);
  // Copied: free the gradients of all positions before waiting, they are as large as the exchanged tensor.
  gradients = {};
  const std::vector<Chunks> all = chunks(both);
  std::vector<Handle> handles;
  communicator_->together([&] {
    for (const Chunks& chunk : all)
      handles.push_back(
          communicator_->reduce_scatter(chunk.group, Purpose::context, array_of(chunk.whole), array_of(chunk.mine)));
  });
  for (Handle& handle : handles) handle.wait();
  for (const Chunks& chunk : all) {
    own.key.narrow(1, chunk.own_first, chunk.length).copy_(view_of(chunk.mine, 0));
    own.value.narrow(1, chunk.own_first, chunk.length).copy_(view_of(chunk.mine, 1));
  }
}

std::vector<double> RankGroups::exchange(std::span<const double> values) const {
  // Gathered and not summed, so that every rank adds up in the same order and knows each rank's values; as bytes,
  // because messages have no type for float64.
  std::vector<double> all(values.size() * static_cast<std::size_t>(communicator_->size()));
  const auto bytes = [](std::size_t count) { return static_cast<std::int64_t>(count * sizeof(double)); };
  communicator_
      ->all_gather(communicator_->world(), Purpose::control,
                   ConstArray{values.data(), bytes(values.size()), ElementType::uint8},
                   Array{all.data(), bytes(all.size()), ElementType::uint8})
      .wait();
  return all;
}

}  // namespace llmtrain

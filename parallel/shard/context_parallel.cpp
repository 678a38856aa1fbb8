// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/context_parallel.h"

#include <ATen/ops/empty.h>

#include <utility>
#include <vector>

#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

// The exchanged tensor [S, B, 2, kv_heads, D]: positions are the outermost dimension, so that the ranks' chunks are
// contiguous and arrive in order without a copy.
at::Tensor exchanged(const at::Tensor& own, std::int64_t positions) {
  return at::empty({positions, own.size(0), 2, own.size(2), own.size(3)}, own.options());
}

// Its keys (0) or values (1) as [B, S, kv_heads, D].
at::Tensor view_of(const at::Tensor& both, std::int64_t which) { return both.select(2, which).transpose(0, 1); }

}  // namespace

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

std::vector<ContextParallel::Chunks> ContextParallel::chunks(std::int64_t sequence_length) const {
  const std::int64_t own = sequence_length / ranks(), early = own / 2;
  std::vector<Chunks> result;
  if (early > 0) result.push_back({early_, 0, 0, early});
  result.push_back({late_, ranks() * early, early, own - early});
  return result;
}

KeysAndValues ContextParallel::gather(const KeysAndValues& own) const {
  const std::int64_t length = own.key.size(1) * ranks();
  const at::Tensor both = exchanged(own.key, length);
  std::vector<Handle> handles;
  for (const Chunks& chunk : chunks(length)) {
    const at::Tensor whole = both.narrow(0, chunk.first, chunk.length * ranks());
    const at::Tensor mine = whole.narrow(0, chunk.group.position() * chunk.length, chunk.length);
    // Own chunks are written to their place first: the gather is in place.
    view_of(mine, 0).copy_(own.key.narrow(1, chunk.own_first, chunk.length));
    view_of(mine, 1).copy_(own.value.narrow(1, chunk.own_first, chunk.length));
    handles.push_back(communicator_->all_gather(chunk.group, Purpose::context, array_of(mine), array_of(whole)));
  }
  for (Handle& handle : handles) handle.wait();
  return {view_of(both, 0), view_of(both, 1)};
}

void ContextParallel::scatter_sum(KeysAndValues gradients, const KeysAndValues& own) const {
  const std::int64_t length = gradients.key.size(1);
  const at::Tensor both = exchanged(gradients.key, length);
  view_of(both, 0).copy_(gradients.key);
  view_of(both, 1).copy_(gradients.value);
  // Copied: free the gradients of all positions before waiting, they are as large as the exchanged tensor.
  gradients = {};
  std::vector<Handle> handles;
  for (const Chunks& chunk : chunks(length)) {
    const at::Tensor whole = both.narrow(0, chunk.first, chunk.length * ranks());
    const at::Tensor mine = whole.narrow(0, chunk.group.position() * chunk.length, chunk.length);
    handles.push_back(communicator_->reduce_scatter(chunk.group, Purpose::context, array_of(whole), array_of(mine)));
  }
  for (Handle& handle : handles) handle.wait();
  for (const Chunks& chunk : chunks(length)) {
    const at::Tensor mine = both.narrow(0, chunk.first + chunk.group.position() * chunk.length, chunk.length);
    own.key.narrow(1, chunk.own_first, chunk.length).copy_(view_of(mine, 0));
    own.value.narrow(1, chunk.own_first, chunk.length).copy_(view_of(mine, 1));
  }
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/tensor_parallel.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

// The tensor ranks that hold the same key-value heads as this one: neighbours in the group.
std::vector<int> same_heads(const std::vector<int>& ranks, int position, std::int64_t kv_heads) {
  // With as many heads as ranks or more each rank is alone in its group.
  const auto copies = std::max<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(ranks.size()) / kv_heads);
  const auto first = ranks.begin() + position / copies * copies;
  return {first, first + copies};
}

at::Tensor with_rows(const at::Tensor& like, std::int64_t rows) {
  std::vector<std::int64_t> shape = like.sizes().vec();
  shape[0] = rows;
  return at::empty(shape, like.options());
}

}  // namespace

TensorParallel::TensorParallel(Communicator& communicator, const Layout& layout)
    : communicator_(&communicator),
      group_(communicator.make_group("tensor", group_members(layout.mesh(), GroupKind::tensor, communicator.rank()))),
      copies_(communicator.make_group("key heads",
                                      same_heads(group_.ranks(), group_.position(), layout.recipe().model.kv_heads))),
      // Sequence parallelism (arXiv 2205.05198): between the matrices each tensor rank holds a part of the rows.
      rows_(layout.recipe().parallel.sequence ? ActivationRows::split : ActivationRows::whole) {}

void TensorParallel::sum(const at::Tensor& x) const {
  communicator_->all_reduce(group_, Purpose::tensor_parallel, array_of(x)).wait();
}

at::Tensor TensorParallel::gather_rows(const at::Tensor& part, Purpose purpose) const {
  at::Tensor whole = with_rows(part, part.size(0) * ranks());
  communicator_->all_gather(group_, purpose, array_of(part), array_of(whole)).wait();
  return whole;
}

at::Tensor TensorParallel::scatter_sum_rows(const at::Tensor& whole) const {
  at::Tensor part = with_rows(whole, whole.size(0) / ranks());
  communicator_->reduce_scatter(group_, Purpose::tensor_parallel, array_of(whole), array_of(part)).wait();
  return part;
}

void TensorParallel::sum_copies(const at::Tensor& x) const {
  communicator_->all_reduce(copies_, Purpose::tensor_parallel, array_of(x)).wait();
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/tensor_parallel.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>
#include <vector>

#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

Group make_group(Communicator& communicator, const std::string& name, std::int64_t ranks) {
  if (ranks <= 1) return {};
  return communicator.make_group(name, strided_ranks(communicator.rank(), ranks, 1));
}

at::Tensor with_rows(const at::Tensor& like, std::int64_t rows) {
  std::vector<std::int64_t> shape = like.sizes().vec();
  shape[0] = rows;
  return at::empty(shape, like.options());
}

}  // namespace

TensorParallel::TensorParallel(Communicator& communicator, const Mesh& mesh, const Recipe& recipe)
    : communicator_(&communicator),
      group_(make_group(communicator, "tensor", tensor_group(mesh).ranks)),
      copies_(make_group(communicator, "key heads", mesh.tensor / std::min(mesh.tensor, recipe.model.kv_heads))),
      rows_(recipe.parallel.sequence ? ActivationRows::split : ActivationRows::whole) {}

void TensorParallel::sum(const at::Tensor& x) const {
  if (group_.is_valid()) communicator_->all_reduce(group_, Purpose::tensor_parallel, array_of(x)).wait();
}

at::Tensor TensorParallel::gather_rows(const at::Tensor& part, Purpose purpose) const {
  if (!group_.is_valid()) return part;
  at::Tensor whole = with_rows(part, part.size(0) * ranks());
  communicator_->all_gather(group_, purpose, array_of(part), array_of(whole)).wait();
  return whole;
}

at::Tensor TensorParallel::scatter_sum_rows(const at::Tensor& whole) const {
  if (!group_.is_valid()) return whole;
  at::Tensor part = with_rows(whole, whole.size(0) / ranks());
  communicator_->reduce_scatter(group_, Purpose::tensor_parallel, array_of(whole), array_of(part)).wait();
  return part;
}

void TensorParallel::sum_copies(const at::Tensor& x) const {
  if (copies_.is_valid()) communicator_->all_reduce(copies_, Purpose::tensor_parallel, array_of(x)).wait();
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/row_parallel.h"

#include <ATen/ops/empty.h>

#include <vector>

#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

at::Tensor tensor_of_rows(const at::Tensor& like, std::int64_t rows) {
  std::vector<std::int64_t> shape = like.sizes().vec();
  shape[0] = rows;
  return at::empty(shape, like.options());
}

}  // namespace

at::Tensor RowParallel::gather_rows(const at::Tensor& part) const {
  const at::Tensor whole = tensor_of_rows(part, part.size(0) * ranks());
  communicator_->all_gather(group_, purpose_, array_of(part), array_of(whole)).wait();
  return whole;
}

at::Tensor RowParallel::scatter_sum_rows(const at::Tensor& whole) const {
  const at::Tensor part = tensor_of_rows(whole, whole.size(0) / ranks());
  communicator_->reduce_scatter(group_, purpose_, array_of(whole), array_of(part)).wait();
  return part;
}

void RowParallel::exchange(const at::Tensor& sent, std::span<const std::int64_t> input, const at::Tensor& received,
                           std::span<const std::int64_t> output) const {
  communicator_->all_to_all_v(group_, purpose_, array_of(sent), array_of(received), {input, output}).wait();
}

}  // namespace llmtrain

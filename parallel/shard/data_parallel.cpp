// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/data_parallel.h"

#include "parallel/shard/tensor_array.h"

namespace llmtrain {

DataParallel::DataParallel(Communicator& communicator, const Layout& layout) : communicator_(&communicator) {
  const auto make = [&](const char* name, GroupKind kind) {
    return communicator.make_group(name, group_members(layout.mesh(), kind, communicator.rank()));
  };
  data_ = make("data", GroupKind::data);
  shard_ = make("shard", GroupKind::shard);
  replica_ = make("replica", GroupKind::replica);
}

Handle DataParallel::sum(const at::Tensor& whole) const {
  return communicator_->all_reduce(data_, Purpose::data_parallel, array_of(whole));
}

Handle DataParallel::sum_replicas(const at::Tensor& part) const {
  return communicator_->all_reduce(replica_, Purpose::data_parallel, array_of(part));
}

Handle DataParallel::scatter_sum(const at::Tensor& whole, const at::Tensor& part) const {
  return communicator_->reduce_scatter(shard_, Purpose::data_parallel, array_of(whole), array_of(part));
}

Handle DataParallel::gather(const at::Tensor& part, const at::Tensor& whole) const {
  return communicator_->all_gather(shard_, Purpose::data_parallel, array_of(part), array_of(whole));
}

}  // namespace llmtrain

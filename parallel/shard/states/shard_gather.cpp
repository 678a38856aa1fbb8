// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/shard_gather.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>

#include <bit>
#include <utility>

#include "kernels/host_copy.h"

namespace llmtrain {

WeightFetch::WeightFetch(const at::Device& device) : device_(device), stream_(kernels::copy_stream(device)) {}

at::Tensor WeightFetch::make_shard(std::int64_t elements, at::ScalarType type) {
  return at::zeros({elements}, at::TensorOptions(type).pinned_memory(true));
}

std::int64_t WeightFetch::bytes_of(const at::Tensor& shard) {
  return static_cast<std::int64_t>(std::bit_ceil(shard.nbytes()));
}

c10::Event WeightFetch::bring(const at::Tensor& shard, const at::Tensor& place, const std::function<void()>& next) {
  // The memory of `place` may have been another's, which computations still read.
  kernels::follow(stream_, kernels::current_stream(device_));
  const c10::StreamGuard guard(stream_);
  place.copy_(shard, true);
  c10::Event copied(device_.type());
  copied.record(stream_);
  next();
  return copied;
}

void WeightFetch::await(const c10::Event& copy) const { copy.block(kernels::current_stream(device_)); }

void ShardGather::start(WeightFetch* fetch, const at::Tensor& shard, std::int64_t elements, std::int64_t position,
                        const Collective& gather) {
  fetch_ = fetch;
  if (fetch == nullptr) {
    // A rank that shares it with no other has the whole already.
    if (shard.numel() == elements) return static_cast<void>(whole_ = shard);
    whole_ = at::empty({elements}, shard.options());
    gather_ = gather(shard, whole_);
    return;
  }
  whole_ = at::empty({elements}, shard.options().device(fetch->device()));
  const at::Tensor place = whole_.narrow(0, position * shard.numel(), shard.numel());
  copied_ = fetch->bring(shard, place, [&] { gather_ = gather(place, whole_); });
}

void ShardGather::wait() {
  gather_.wait();
  if (copied_) fetch_->await(*std::exchange(copied_, std::nullopt));
}

at::Tensor ShardGather::take() {
  wait();
  return std::exchange(whole_, {});
}

}  // namespace llmtrain

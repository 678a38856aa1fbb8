// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/fp8_sum.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "kernels/fp8/scale.h"

namespace llmtrain {
namespace {

// Bounds the fp32 sums, 16 MB.
constexpr std::int64_t elements_at_once = std::int64_t{1} << 22;

}  // namespace

bool Fp8Sum::takes(const DataParallel& ranks, const at::Tensor& payload) {
  return !payload.is_cpu() && ranks.ranks() > 1 && ranks.shards() == ranks.ranks();
}

Fp8Sum::Fp8Sum(const DataParallel& ranks, const at::Tensor& payload)
    : ranks_(ranks), shards_{payload.numel(), ranks.shards()}, sent_(payload) {
  std::vector<std::int64_t> given;
  for (std::int64_t rank = 0; rank < shards_.ranks; ++rank) given.push_back(shards_.shard(rank).count());
  const std::vector<std::int64_t> taken(given.size(), own().count());
  received_ = at::empty({shards_.ranks * own().count()}, payload.options());
  exchange_ = ranks_.exchange(sent_, given, received_, taken);
}

void Fp8Sum::finish(const at::Tensor& part) {
  exchange_.wait();
  sent_.reset();
  const std::int64_t count = own().count();
  const double most = kernels::largest_of(kernels::Fp8Format::e4m3);
  for (std::int64_t begin = 0; begin < count; begin += elements_at_once) {
    const std::int64_t end = std::min(begin + elements_at_once, count);
    at::Tensor sum = received_.slice(0, begin, end).to(at::kFloat);
    for (std::int64_t rank = 1; rank < shards_.ranks; ++rank)
      sum.add_(received_.slice(0, rank * count + begin, rank * count + end).to(at::kFloat));
    part.slice(0, begin, end).copy_(sum.clamp_(-most, most));
  }
  received_.reset();
}

void Fp8Sum::finish_whole(const at::Tensor& whole) {
  const at::Tensor part = at::empty({shards_.part()}, whole.options());
  // Padding is sent, and read by nobody.
  part.slice(0, own().count()).zero_();
  finish(part);
  const at::Tensor all = at::empty({shards_.padded()}, whole.options());
  ranks_.gather(part, all).wait();
  whole.copy_(all.slice(0, 0, whole.numel()));
}

}  // namespace llmtrain

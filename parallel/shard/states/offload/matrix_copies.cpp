// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/offload/matrix_copies.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include <utility>

#include "kernels/host_copy.h"
#include "parallel/layout/matrix_cuts.h"

namespace llmtrain {

MatrixCopies::MatrixCopies(const at::Device& device, bool overlap)
    : device_(device),
      overlaps_(overlap),
      incoming_(kernels::copy_stream(device)),
      outgoing_(kernels::copy_stream(device)) {}

c10::Stream MatrixCopies::computing() const { return kernels::current_stream(device_); }

void MatrixCopies::begin() { kernels::follow(incoming(), computing()); }

at::Tensor MatrixCopies::bring(const std::vector<at::Tensor>& parts) {
  const c10::Stream work = computing(), stream = incoming();
  std::int64_t elements = 0;
  for (const at::Tensor& part : parts) elements += part.numel();
  // Memory that the stream allocates is read by nothing that has not been waited for (end_first()): what is brought
  // need not follow the device's work.
  const c10::StreamGuard guard(stream);
  at::Tensor here = at::empty({elements}, parts.front().options().device(device_).pinned_memory(false));
  std::int64_t begin = 0;
  for (const at::Tensor& part : parts) {
    here.slice(0, begin, begin + part.numel()).copy_(part, true);
    begin += part.numel();
  }
  kernels::follow(work, stream);
  bytes_ += static_cast<std::int64_t>(here.nbytes());
  brought_.push_back(here);
  return here;
}

void MatrixCopies::leave(std::vector<Left> left, std::function<void()> then) {
  const c10::Stream stream = outgoing();
  kernels::follow(stream, computing());
  std::vector<at::Tensor> kept = std::exchange(brought_, {});
  {
    const c10::StreamGuard guard(stream);
    for (Left& tensor : left) {
      std::int64_t begin = 0;
      for (const at::Tensor& part : tensor.parts) {
        part.copy_(tensor.values.slice(0, begin, begin + part.numel()), true);
        begin += part.numel();
      }
      bytes_ += static_cast<std::int64_t>(tensor.values.nbytes());
      kept.push_back(std::move(tensor.values));
    }
  }
  leaving_.push_back({c10::Event(device_.type()), std::move(kept), std::move(then)});
  leaving_.back().done.record(stream);
  while (leaving_.size() > (overlaps_ ? most_leaving_matrices : 0)) end_first();
}

// Its stream has followed the device's work on what was brought, whose memory may now be anything's.
void MatrixCopies::end_first() {
  Leaving first = std::move(leaving_.front());
  leaving_.pop_front();
  first.done.synchronize();
  if (first.then) first.then();
}

void MatrixCopies::finish() {
  while (!leaving_.empty()) end_first();
}

}  // namespace llmtrain

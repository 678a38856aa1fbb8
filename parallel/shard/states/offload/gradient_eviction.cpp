// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/offload/gradient_eviction.h"

#include <c10/core/StreamGuard.h>

#include "kernels/host_copy.h"

namespace llmtrain {

GradientEviction::GradientEviction(const at::Device& device) : device_(device), stream_(kernels::copy_stream(device)) {}

void GradientEviction::start(const at::Tensor& gradients, const at::Tensor& host) {
  kernels::follow(stream_, kernels::current_stream(device_));
  const c10::StreamGuard guard(stream_);
  host.copy_(gradients, true);
  bytes_ += static_cast<std::int64_t>(gradients.nbytes());
}

void GradientEviction::finish() { kernels::follow(kernels::current_stream(device_), stream_); }

}  // namespace llmtrain

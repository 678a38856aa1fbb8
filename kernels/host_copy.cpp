// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_copy.h"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace llmtrain::kernels {
namespace {

at::Tensor pinned_like(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(), at::TensorOptions(tensor.scalar_type()).pinned_memory(true));
}

}  // namespace

c10::Stream current_stream(const at::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

c10::Stream copy_stream(const at::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, false);
}

void follow(const c10::Stream& later, const c10::Stream& earlier) {
  c10::Event enqueued(earlier.device_type());
  enqueued.record(earlier);
  enqueued.block(later);
}

at::Tensor to_device(const at::Tensor& tensor, const at::Device& device) {
  if (tensor.device() == device) return tensor;
  if (tensor.numel() == 0) return at::empty(tensor.sizes(), tensor.options().device(device));
  const at::Tensor pinned = pinned_like(tensor).copy_(tensor);
  return at::empty(tensor.sizes(), tensor.options().device(device)).copy_(pinned, true);
}

at::Tensor to_host(const at::Tensor& tensor) { return tensor.is_cpu() ? tensor : pinned_like(tensor).copy_(tensor); }

}  // namespace llmtrain::kernels

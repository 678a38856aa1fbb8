// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

namespace llmtrain::kernels {

// On which the calling thread enqueues its work.
c10::Stream current_stream(const at::Device& device);
// Another one of LibTorch's pool, of the usual priority: copies may wait for the work of a step.
c10::Stream copy_stream(const at::Device& device);
// What is enqueued on `later` from here on begins after all that `earlier` holds, of the same device. Nobody waits.
void follow(const c10::Stream& later, const c10::Stream& earlier);

// Small tensors on their way between the host and a GPU, through pinned memory, which LibTorch keeps until a copy is
// done with it. Without a GPU a tensor is returned as it is.

// A tensor of the host on the device. Nobody waits: the copy is ordered on the current stream.
at::Tensor to_device(const at::Tensor& tensor, const at::Device& device);

// A tensor of the device on the host. Waits once, for what the current stream holds.
at::Tensor to_host(const at::Tensor& tensor);

}  // namespace llmtrain::kernels

// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cudnn_support.h"

#include <ATen/detail/CUDAHooksInterface.h>

namespace llmtrain::kernels {

std::string missing_for_cudnn_attention(const c10::Device& device) {
  constexpr long oldest = 90000;  // before, lengths that are no multiple of 64 fail
  if (!device.is_cuda()) return "needs a GPU, and this rank computes on a processor";
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  if (!hooks.hasCuDNN()) return "needs cuDNN, which this LibTorch has not found";
  if (hooks.versionRuntimeCuDNN() < oldest)
    return "needs cuDNN 9, and the version here is " + std::to_string(hooks.versionRuntimeCuDNN());
  // It asks for the same: compute capability 8.
  if (!hooks.supportsBFloat16ConvolutionWithCuDNNv8()) return "needs a GPU of compute capability 8.0 or above";
  return "";
}

}  // namespace llmtrain::kernels

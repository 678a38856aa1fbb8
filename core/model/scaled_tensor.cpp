// SPDX-License-Identifier: Apache-2.0
#include "core/model/scaled_tensor.h"

#include <ATen/ops/cat.h>

#include <vector>

namespace llmtrain {

at::Tensor Fp8Scaling::scales(std::initializer_list<at::Tensor> tensors, kernels::Fp8Format format,
                              const MicroBatch& micro) const {
  std::vector<at::Tensor> own;
  for (const at::Tensor& tensor : tensors) own.push_back(kernels::largest_magnitude(tensor));
  const at::Tensor maxima = at::cat(own);
  if (tensor_ != nullptr && tensor_->ranks() > 1) tensor_->largest(maxima);
  // A rank that has whole sequences runs on its own (generation).
  if (context_ != nullptr && !micro.part.is_whole()) context_->largest(maxima);
  return kernels::fp8_scale(maxima, format);
}

}  // namespace llmtrain

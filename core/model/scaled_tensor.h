// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

#include "core/model/micro_batch.h"
#include "core/model/other_ranks.h"
#include "kernels/fp8.h"

namespace llmtrain {

// An operand of a matrix product: in FP8 with its scale, or in the compute type without one.
struct ScaledTensor {
  at::Tensor values;
  at::Tensor scale;  // fp32 [1]; undefined where the values are not scaled

  bool is_scaled() const { return scale.defined(); }
  // The numbers that it stands for, in the compute type.
  at::Tensor widened(at::ScalarType compute) const {
    return is_scaled() ? kernels::widen_fp8(values, scale, compute) : values;
  }
};

// Current scaling: a tensor's scale is that of its own largest magnitude. The maximum is of the logical tensor: tensor
// ranks that hold parts of a weight or activation, and context ranks that hold parts of the micro-batch's tokens, agree
// on it, so that numbers do not depend on the layout.
class Fp8Scaling {
 public:
  // Both outlive this; null where no ranks share features or sequences.
  Fp8Scaling(const TensorRanks* tensor, const ContextRanks* context) : tensor_(tensor), context_(context) {}

  // The scales of these tensors, fp32 [n]. Blocks until the other ranks make the same call.
  at::Tensor scales(std::initializer_list<at::Tensor> tensors, kernels::Fp8Format format,
                    const MicroBatch& micro) const;

 private:
  const TensorRanks* tensor_;
  const ContextRanks* context_;
};

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <initializer_list>
#include <optional>

#include "core/model/fp8_history.h"
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
// on it, so that numbers do not depend on the layout. A micro-batch with a history has delayed scaling instead, which
// needs no other ranks.
class Fp8Scaling {
 public:
  // Both outlive this; null where no ranks share features or sequences.
  Fp8Scaling(const TensorRanks* tensor, const ContextRanks* context) : tensor_(tensor), context_(context) {}

  // The same for the products of a linear layer, by its first weight.
  Fp8Scaling of(std::size_t product) const;

  // Whether the product multiplies FP8 for this micro-batch: one with delayed scales may have left it.
  bool applies_to(const MicroBatch& micro) const;

  // The scales of tensors that are cast to the same format, fp32 [n]. Blocks until the other ranks make the same call.
  struct Operand {
    Fp8Operand what;
    at::Tensor values;
  };
  at::Tensor scales(std::initializer_list<Operand> operands, const MicroBatch& micro) const;

 private:
  // Those of the micro-batch's history, where it has them; notes the tensors' own maxima.
  std::optional<at::Tensor> delayed(std::initializer_list<Operand> operands, const at::Tensor& maxima,
                                    const MicroBatch& micro) const;

  const TensorRanks* tensor_;
  const ContextRanks* context_;
  std::size_t product_ = 0;
};

}  // namespace llmtrain

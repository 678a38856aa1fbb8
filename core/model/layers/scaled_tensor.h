// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <initializer_list>
#include <optional>

#include "core/model/layers/context_ranks.h"
#include "core/model/layers/fp8_history.h"
#include "core/model/layers/tensor_ranks.h"
#include "core/model/pass/pass_context.h"
#include "kernels/fp8/fp8.h"
#include "kernels/fp8/stored_matrix.h"

namespace llmtrain {

// An operand of a matrix product: in FP8 with its scale, or in the compute type without one.
struct ScaledTensor {
  at::Tensor values;
  at::Tensor scale;     // fp32 [1], or of rows apart [rows, 1]; undefined where the values are not scaled
  at::Tensor turned{};  // the values the other way round, where they were cast so (kernels/fp8/fp8.h)

  bool is_scaled() const { return scale.defined(); }
  // The numbers that it stands for, in the compute type.
  at::Tensor widened(at::ScalarType compute) const {
    return is_scaled() ? kernels::widen_fp8(values, scale, compute) : values;
  }
};

// Whether a cast also makes the values the other way round, where that takes no pass of its own.
enum class CastWays { one, both };

// Current scaling: a tensor's scale is that of its own largest magnitude. The maximum is of the logical tensor: tensor
// ranks that hold parts of a weight or activation, and context ranks that hold parts of the micro-batch's tokens, agree
// on it, so that numbers do not depend on the layout. A pass with a history has delayed scaling instead, which
// needs no other ranks, and no pass over the tensor before its cast. Under kernels::SeparateRows current scaling gives
// each row of an input a scale of its own, so that it does not depend on the rows beside it.
class Fp8Scaling {
 public:
  // All outlive this. The ranks are null where none share features or sequences; `history` has which products have left
  // FP8, null where none can.
  Fp8Scaling(const TensorRanks* tensor, const ContextRanks* context, const Fp8History* history)
      : tensor_(tensor), context_(context), history_(history) {}

  // The same for the products of a linear layer, by its first weight.
  Fp8Scaling of(std::size_t product) const;

  // Whether the product multiplies FP8, in training and evaluation alike: one with delayed scales may have left it.
  bool applies() const { return history_ == nullptr || !history_->has_fallen_back(product_); }

  struct Operand {
    Fp8Operand what;
    at::Tensor values;
  };
  // The scales that delayed scaling has for a pass, fp32 [n] on `device`; none: with current scaling, and where an
  // operand has no history. cast() and note() then take what the next ones follow from.
  std::optional<at::Tensor> delayed(std::initializer_list<Fp8Operand> operands, const PassContext& pass,
                                    const at::Device& device = at::kCPU) const;
  // The scales of tensors that are cast to the same format, fp32 [n], of their own magnitudes. With delayed scaling
  // notes these. Blocks until the other ranks make the same call.
  at::Tensor current(std::initializer_list<Operand> operands, const PassContext& pass) const;

  // Whether an input's rows are scaled apart: on a processor, of a rank that holds all of its columns.
  bool separates_rows_of(const at::Tensor& x, const PassContext& pass) const;
  // The scales of its rows then, fp32 [rows, 1].
  static at::Tensor row_scales(const at::Tensor& x);

  // The operand with a delayed scale, in one pass. What is not finite makes all of it NaN: its infinities would
  // saturate.
  ScaledTensor cast(const Operand& operand, const at::Tensor& scale, const PassContext& pass,
                    CastWays ways = CastWays::one) const;
  // The same of a weight as it is kept.
  ScaledTensor cast(const kernels::StoredMatrix& weight, const at::Tensor& scale, const PassContext& pass) const;
  // Notes an operand's largest magnitude, fp32 [1], in a pass that has a history.
  void note(Fp8Operand operand, const at::Tensor& largest, const PassContext& pass) const;

 private:
  at::Tensor delayed_scale(Fp8Operand operand, const PassContext& pass, const at::Device& device) const;

  const TensorRanks* tensor_;
  const ContextRanks* context_;
  const Fp8History* history_;
  std::size_t product_ = 0;
};

}  // namespace llmtrain

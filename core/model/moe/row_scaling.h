// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/model/moe/expert_ranks.h"
#include "core/model/pass/kept_tensors.h"
#include "kernels/fp8/fp8.h"

namespace llmtrain {

// Rows as an operand of the experts' products: in FP8 with a scale per row, or in the compute type without.
struct ScaledRows {
  at::Tensor values;
  at::Tensor scales;  // fp32 [rows, 1]; undefined where the values are not scaled

  // The numbers that they stand for, in the compute type.
  at::Tensor widened(at::ScalarType compute) const;

  void visit(const KeptTensorVisitor& visit) { visit_all(visit, {&values, &scales}); }
};

// The scales of FP8 operands of the experts' products. A row has that of its own largest magnitude: which rows an
// expert computes together depends on the layout, since ranks that share experts send each other rows of different
// micro-batches, and a scale of all of them would make the numbers depend on it, too. An expert's matrix is one row.
class RowScaling {
 public:
  // `features`: the ranks that have the other columns of rows that are split; outlives this, null where there are none.
  explicit RowScaling(const RowRanks* features) : features_(features) {}

  // Powers of two, fp32 [rows, 1], of x [rows, columns]: of whole rows, or of those of which other ranks have
  // the other columns; blocks until they make the same call.
  enum class Columns { whole, split };
  at::Tensor scales(const at::Tensor& x, kernels::Fp8Format format, Columns columns) const;

  // Saturated and rounded to nearest.
  static ScaledRows cast(const at::Tensor& x, const at::Tensor& scales, kernels::Fp8Format format);
  // x becomes the numbers that the format can represent, in its own type.
  static void round_in_place(const at::Tensor& x, const at::Tensor& scales, kernels::Fp8Format format);

 private:
  const RowRanks* features_;
};

}  // namespace llmtrain

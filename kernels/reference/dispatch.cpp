// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/reference/operators.h"
#include "kernels/wide_type.h"

namespace llmtrain::kernels::reference {
namespace {

at::Tensor token_of(const ExpertRows& map) { return map.choice_of.div(map.row_of.size(1), "floor"); }

at::Tensor gate_of(const at::Tensor& gates, const ExpertRows& map) {
  return gates.flatten().index_select(0, map.choice_of).unsqueeze(1);
}

// [T, k, H]: the row of each choice, zero for dropped ones.
at::Tensor rows_by_choice(const at::Tensor& rows, const ExpertRows& map) {
  at::Tensor result = at::zeros({map.choices(), rows.size(1)}, rows.options());
  // Each choice has one row at most, so nothing is added; index_add_() would not be reproducible on a GPU.
  result.index_copy_(0, map.choice_of, rows);
  return result.view({map.row_of.size(0), map.row_of.size(1), rows.size(1)});
}

}  // namespace

at::Tensor dispatch_forward(const at::Tensor& x, const ExpertRows& map) { return x.index_select(0, token_of(map)); }

at::Tensor dispatch_backward(const at::Tensor& drows, const ExpertRows& map) {
  return rows_by_choice(drows.to(wide_type(drows)), map).sum(1).to(drows.scalar_type());
}

at::Tensor combine_forward(const at::Tensor& rows, const at::Tensor& gates, const ExpertRows& map) {
  const at::Tensor weighted = rows.to(wide_type(rows)) * gate_of(gates, map);
  return rows_by_choice(weighted, map).sum(1).to(rows.scalar_type());
}

CombineGradients combine_backward(const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& gates,
                                  const ExpertRows& map) {
  const at::Tensor wide = reference::dispatch_forward(dy.to(wide_type(dy)), map);
  at::Tensor dgates = at::zeros_like(gates);
  dgates.flatten().index_copy_(0, map.choice_of, (wide * rows).sum(1).to(gates.scalar_type()));
  return {(wide * gate_of(gates, map)).to(dy.scalar_type()), dgates};
}

}  // namespace llmtrain::kernels::reference

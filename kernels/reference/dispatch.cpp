// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/accumulation_type.h"
#include "kernels/reference/operators.h"

// What goes back to tokens is gathered by row_of, not added to them by choice_of: sums then have the order of the
// choices on a GPU too, and rows that no expert has are never read.
namespace llmtrain::kernels::reference {
namespace {

at::Tensor token_of(const ExpertRows& map) { return map.choice_of.div(map.row_of.size(1), "floor"); }

at::Tensor gate_of(const at::Tensor& gates, const ExpertRows& map) {
  return gates.flatten().index_select(0, map.choice_of).unsqueeze(1);
}

// What `rows`, of which there is one, have for choices with these rows; 0 for those without, whatever the first row is.
at::Tensor at_rows(const at::Tensor& rows, const at::Tensor& row_of) {
  const at::Tensor picked = rows.index_select(0, row_of.clamp_min(0));
  at::Tensor is_dropped = row_of.lt(0);
  if (rows.dim() == 2) is_dropped = is_dropped.unsqueeze(1);
  return picked.masked_fill_(is_dropped, 0);
}

// y[t] = Σ_j gates[t, j] · rows[row of (t, j)]; undefined gates are all 1.
at::Tensor sum_choices(const at::Tensor& rows, const at::Tensor& gates, const ExpertRows& map) {
  at::Tensor y = at::zeros({map.row_of.size(0), rows.size(1)}, rows.options().dtype(accumulation_type(rows)));
  if (rows.size(0) == 0) return y.to(rows.scalar_type());
  for (std::int64_t j = 0; j < map.row_of.size(1); ++j) {
    const at::Tensor picked = at_rows(rows, map.row_of.select(1, j));
    y.add_(gates.defined() ? picked * gates.select(1, j).unsqueeze(1) : picked);
  }
  return y.to(rows.scalar_type());
}

}  // namespace

at::Tensor dispatch_forward(const at::Tensor& x, const ExpertRows& map) { return x.index_select(0, token_of(map)); }

at::Tensor dispatch_backward(const at::Tensor& drows, const ExpertRows& map) { return sum_choices(drows, {}, map); }

at::Tensor combine_forward(const at::Tensor& rows, const at::Tensor& gates, const ExpertRows& map) {
  return sum_choices(rows, gates, map);
}

CombineGradients combine_backward(const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& gates,
                                  const ExpertRows& map) {
  if (rows.size(0) == 0) return {at::zeros_like(rows, dy.options()), at::zeros_like(gates)};
  const at::Tensor given = reference::dispatch_forward(dy, map);
  const at::Tensor products = (given.to(accumulation_type(dy)) * rows).sum(1).to(gates.scalar_type());
  const at::Tensor dgates = at_rows(products, map.row_of.flatten()).view_as(gates);
  return {(given * gate_of(gates, map)).to(dy.scalar_type()), dgates};
}

}  // namespace llmtrain::kernels::reference

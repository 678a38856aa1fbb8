// SPDX-License-Identifier: Apache-2.0
#include "kernels/moe/dispatch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/cuda_operators/moe/dispatch.h"
#include "kernels/reference/operators.h"
#include "kernels/vector/dispatch.h"
#include "kernels/vector/level.h"
#include "kernels/vector_dispatch.h"

namespace llmtrain::kernels {
namespace {

template <class Element>
vector::DispatchKernels<Element> dispatch_loops() {
  return vector::at_level([]<int level> { return vector::dispatch_kernels_for<level, Element>(); });
}

const std::int64_t* indices(const at::Tensor& x) { return x.const_data_ptr<std::int64_t>(); }

// y[t] = Σ_j gates[t, j] · rows[row of (t, j)]; null gates are all 1.
at::Tensor sum_choices(const at::Tensor& rows, const float* gates, const ExpertRows& map) {
  const at::Tensor y = at::empty({map.row_of.size(0), rows.size(1)}, rows.options());
  with_element_of(rows, [&]<class Element> {
    dispatch_loops<Element>().sum({.rows = elements<Element>(rows),
                                   .gates = gates,
                                   .row_of = indices(map.row_of),
                                   .y = mutable_elements<Element>(y),
                                   .tokens = map.row_of.size(0),
                                   .choices = map.row_of.size(1),
                                   .width = rows.size(1)});
  });
  return y;
}

}  // namespace

at::Tensor dispatch_forward(const at::Tensor& x, const ExpertRows& map) {
  if (has_cuda_dispatch(x, map)) return cuda_dispatch(x, map);
  if (!is_vector_array(x)) return reference::dispatch_forward(x, map);
  const at::Tensor rows = at::empty({map.rows(), x.size(1)}, x.options());
  with_element_of(x, [&]<class Element> {
    dispatch_loops<Element>().copy({.x = elements<Element>(x),
                                    .choice_of = indices(map.choice_of),
                                    .rows = mutable_elements<Element>(rows),
                                    .count = map.rows(),
                                    .choices = map.row_of.size(1),
                                    .width = x.size(1)});
  });
  return rows;
}

at::Tensor dispatch_backward(const at::Tensor& drows, const ExpertRows& map) {
  if (has_cuda_dispatch(drows, map)) return cuda_combine(drows, {}, map);
  if (!is_vector_array(drows)) return reference::dispatch_backward(drows, map);
  return sum_choices(drows, nullptr, map);
}

at::Tensor combine_forward(const at::Tensor& rows, const at::Tensor& gates, const ExpertRows& map) {
  if (has_cuda_dispatch(rows, map)) return cuda_combine(rows, gates, map);
  if (!is_vector_array(rows)) return reference::combine_forward(rows, gates, map);
  return sum_choices(rows, gates.const_data_ptr<float>(), map);
}

CombineGradients combine_backward(const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& gates,
                                  const ExpertRows& map) {
  const bool is_of_one_type = dy.scalar_type() == rows.scalar_type();
  if (is_of_one_type && has_cuda_dispatch(rows, map) && has_cuda_dispatch(dy, map))
    return cuda_combine_backward(dy, rows, gates, map);
  if (!is_of_one_type || !is_vector_array(rows) || !is_vector_array(dy))
    return reference::combine_backward(dy, rows, gates, map);
  // The loop visits rows, so dropped choices keep this zero.
  CombineGradients gradients{at::empty_like(rows), at::zeros_like(gates)};
  with_element_of(rows, [&]<class Element> {
    dispatch_loops<Element>().sum_backward({.dy = elements<Element>(dy),
                                            .rows = elements<Element>(rows),
                                            .gates = gates.const_data_ptr<float>(),
                                            .choice_of = indices(map.choice_of),
                                            .drows = mutable_elements<Element>(gradients.rows),
                                            .dgates = gradients.gates.mutable_data_ptr<float>(),
                                            .count = map.rows(),
                                            .choices = map.row_of.size(1),
                                            .width = rows.size(1)});
  });
  return gradients;
}

}  // namespace llmtrain::kernels

// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/moe/dispatch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>

#include <limits>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {
namespace {

ChoiceRows choice_rows(const ExpertRows& map, std::int64_t width) {
  return {.row_of = map.row_of.const_data_ptr<std::int64_t>(),
          .tokens = map.row_of.size(0),
          .rows = map.rows(),
          .choices = static_cast<int>(map.row_of.size(1)),
          .width = static_cast<int>(width)};
}

}  // namespace

bool has_cuda_dispatch(const at::Tensor& x, const ExpertRows& map) {
  return has_kernels(x) && x.is_contiguous() && map.row_of.is_contiguous() &&
         x.size(1) <= std::numeric_limits<int>::max();
}

at::Tensor cuda_dispatch(const at::Tensor& x, const ExpertRows& map) {
  const c10::DeviceGuard guard(x.device());
  const at::Tensor rows = at::empty({map.rows(), x.size(1)}, x.options());
  kernel_table()->dispatch->dispatch({.element = *element_of(x),
                                      .map = choice_rows(map, x.size(1)),
                                      .x = x.const_data_ptr(),
                                      .rows = rows.mutable_data_ptr()},
                                     stream_of(x));
  return rows;
}

at::Tensor cuda_combine(const at::Tensor& rows, const at::Tensor& gates, const ExpertRows& map) {
  const c10::DeviceGuard guard(rows.device());
  const at::Tensor y = at::empty({map.row_of.size(0), rows.size(1)}, rows.options());
  const at::Tensor whole = gates.defined() ? gates.contiguous() : at::Tensor();
  kernel_table()->dispatch->combine({.element = *element_of(rows),
                                     .map = choice_rows(map, rows.size(1)),
                                     .rows = rows.const_data_ptr(),
                                     .gates = whole.defined() ? whole.const_data_ptr<float>() : nullptr,
                                     .y = y.mutable_data_ptr()},
                                    stream_of(rows));
  return y;
}

CombineGradients cuda_combine_backward(const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& gates,
                                       const ExpertRows& map) {
  const c10::DeviceGuard guard(rows.device());
  const at::Tensor whole = gates.contiguous();
  CombineGradients gradients{at::empty_like(rows), at::empty_like(whole)};
  kernel_table()->dispatch->combine_backward({.element = *element_of(rows),
                                              .map = choice_rows(map, rows.size(1)),
                                              .dy = dy.const_data_ptr(),
                                              .rows = rows.const_data_ptr(),
                                              .gates = whole.const_data_ptr<float>(),
                                              .drows = gradients.rows.mutable_data_ptr(),
                                              .dgates = gradients.gates.mutable_data_ptr<float>()},
                                             stream_of(rows));
  return gradients;
}

}  // namespace llmtrain::kernels

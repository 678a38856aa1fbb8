// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/moe/expert_rows.h"

#include <ATen/ops/argsort.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <limits>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {

bool has_cuda_expert_rows(const at::Tensor& experts, std::int64_t count) {
  return experts.is_cuda() && has_kernel_table() && count <= most_assigned_experts &&
         experts.numel() <= std::numeric_limits<int>::max();
}

ExpertRows cuda_assign_rows(const at::Tensor& experts, std::int64_t count, std::optional<std::int64_t> capacity,
                            const std::optional<at::Tensor>& scores) {
  const c10::DeviceGuard guard(experts.device());
  const at::Tensor chosen = experts.contiguous();
  const at::Tensor order = scores ? at::argsort(*scores, true, 0, true) : at::Tensor();
  const std::int64_t choices = chosen.numel(), most = std::min(capacity.value_or(choices), choices);
  const at::TensorOptions counts = chosen.options().dtype(at::kInt);
  ExpertRows map;
  map.ends = at::empty({count}, counts);
  map.row_of = at::empty_like(chosen);
  map.choice_of = at::empty({std::min(choices, count * most)}, chosen.options());
  const at::Tensor scratch = at::empty({assigned_counts(choices, count)}, counts);
  kernel_table()->expert_rows->assign({.chosen = chosen.const_data_ptr<std::int64_t>(),
                                       .order = scores ? order.const_data_ptr<std::int64_t>() : nullptr,
                                       .tokens = chosen.size(0),
                                       .choices = static_cast<int>(chosen.size(1)),
                                       .experts = static_cast<int>(count),
                                       .most = most,
                                       .rows = map.rows(),
                                       .counts = scratch.mutable_data_ptr<int>(),
                                       .ends = map.ends.mutable_data_ptr<int>(),
                                       .row_of = map.row_of.mutable_data_ptr<std::int64_t>(),
                                       .choice_of = map.choice_of.mutable_data_ptr<std::int64_t>()},
                                      stream_of(chosen));
  return map;
}

}  // namespace llmtrain::kernels

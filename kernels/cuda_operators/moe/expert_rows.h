// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/moe/expert_rows.h"

namespace llmtrain::kernels {

// assign_rows() (kernels/moe/expert_rows.h) on a GPU with the kernels of kernels/cuda/moe/expert_rows_kernels.h: two,
// and a sort where there are scores.

// Whether they take the choices of so many experts.
bool has_cuda_expert_rows(const at::Tensor& experts, std::int64_t count);

ExpertRows cuda_assign_rows(const at::Tensor& experts, std::int64_t count, std::optional<std::int64_t> capacity,
                            const std::optional<at::Tensor>& scores);

}  // namespace llmtrain::kernels

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/gemm.h"
#include "kernels/moe/expert_rows.h"

namespace llmtrain::kernels {

// The three matrix products of the experts' linear layers: weights [E, out, in], contiguous, each over the rows of its
// expert. Operands may be columns of wider matrices. Rows that are no expert's are not read; what they become is not
// defined.
//
// On a CPU, and on a GPU where run_together() says no, experts run one after another (gemm.h), on a GPU with two or
// three kernels for each; the map then needs offsets. In bf16 on a GPU all run in one kernel (at::_grouped_mm), which
// takes its sizes from map.ends: nobody waits. It needs a GPU of compute capability 9 or 10; on older ones LibTorch
// does the same, but waits for the sizes in every product. Its results are bf16, gradients of weights too: those of one
// micro-batch are rounded before they are added.
bool run_together(at::ScalarType type, const at::Device& device, std::int64_t inputs, std::int64_t outputs);

// y[rows, out] = x[rows, in] · weightᵀ (+ bias [E, out]).
at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weights, const std::optional<at::Tensor>& biases,
                          const ExpertRows& map);
// The same into y, which may be columns of a wider matrix.
void grouped_linear_into(const at::Tensor& x, const at::Tensor& weights, const std::optional<at::Tensor>& biases,
                         const ExpertRows& map, const at::Tensor& y);

// The same of E4M3 numbers: rows x ÷ scales, fp32 [rows, 1], and weights ÷ weight_scales, fp32 [E, 1]. In one kernel of
// the units for FP8 (at::_scaled_grouped_mm), in bf16, where scaled_run_together() says so and the GPU is of compute
// capability 9 or 10; elsewhere the operands are widened. Gradients have no such products: they are E5M2, which the
// kernel does not take, and those of weights are sums over rows, of which each has another scale.
bool scaled_run_together(at::ScalarType type, const at::Device& device, std::int64_t inputs, std::int64_t outputs);
at::Tensor grouped_scaled_linear(const at::Tensor& x, const at::Tensor& scales, const at::Tensor& weights,
                                 const at::Tensor& weight_scales, const std::optional<at::Tensor>& biases,
                                 const ExpertRows& map);

// dx[rows, in] = dy[rows, out] · weight.
at::Tensor grouped_backward_input(const at::Tensor& dy, const at::Tensor& weights, const ExpertRows& map);
// dx += the same.
void grouped_add_backward_input(const at::Tensor& dy, const at::Tensor& weights, const ExpertRows& map,
                                const at::Tensor& dx);

// dweights[E, out, in] = or += dyᵀ · x, 0 of experts without rows.
void grouped_backward_weight(const at::Tensor& dy, const at::Tensor& x, const ExpertRows& map,
                             const at::Tensor& dweights, Accumulation accumulation);

// dbiases[E, out] = or += the sums of each expert's rows of dy, in a fixed order.
void grouped_backward_bias(const at::Tensor& dy, const ExpertRows& map, const at::Tensor& dbiases,
                           Accumulation accumulation);

}  // namespace llmtrain::kernels

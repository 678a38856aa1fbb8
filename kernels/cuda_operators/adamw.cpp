// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/adamw.h"

#include <c10/core/DeviceGuard.h>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"
#include "kernels/fp8/adamw_parts.h"

namespace llmtrain::kernels {
namespace {

// Without gaps, beside the weights.
bool is_like(const at::Tensor& x, const at::Tensor& weights) {
  return x.device() == weights.device() && x.is_contiguous();
}

bool is_fp32(const at::Tensor& x) { return x.scalar_type() == at::kFloat; }

}  // namespace

bool has_cuda_adamw(const AdamwState& state, const at::Tensor& gradients,
                    const std::optional<at::Tensor>& compute_weights) {
  const at::Tensor& weights = state.weights;
  if (!weights.is_cuda() || !has_kernel_table()) return false;
  for (const at::Tensor* states : {&weights, &state.m, &state.v})
    if (!is_fp32(*states) || !is_like(*states, weights)) return false;
  if (!element_of(gradients) || !is_like(gradients, weights)) return false;
  if (!compute_weights) return true;
  return element_of(*compute_weights) && !is_fp32(*compute_weights) && is_like(*compute_weights, weights);
}

void cuda_adamw_(AdamwState& state, const at::Tensor& gradients, const AdamwStep& step,
                 const std::optional<at::Tensor>& compute_weights, const DecayRuns& runs) {
  const c10::DeviceGuard guard(state.weights.device());
  AdamwArguments arguments{.weights = state.weights.mutable_data_ptr<float>(),
                           .m = state.m.mutable_data_ptr<float>(),
                           .v = state.v.mutable_data_ptr<float>(),
                           .gradient = *element_of(gradients),
                           .gradients = gradients.const_data_ptr(),
                           .n = state.weights.numel(),
                           .first_decays = runs.first_decays,
                           .changes = runs.changes.data(),
                           .change_count = static_cast<std::int64_t>(runs.changes.size())};
  if (compute_weights) {
    arguments.compute_weight = *element_of(*compute_weights);
    arguments.compute_weights = compute_weights->mutable_data_ptr();
  }
  kernel_table()->adamw->step(arguments, constants_of(step), stream_of(state.weights));
}

}  // namespace llmtrain::kernels

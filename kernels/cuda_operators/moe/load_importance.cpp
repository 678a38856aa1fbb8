// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/moe/load_importance.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {

bool has_cuda_load_importance(const at::Tensor& logits) {
  return has_kernels(logits) && logits.scalar_type() == at::kFloat && logits.is_contiguous() &&
         logits.size(1) <= most_routed_experts;
}

LoadImportanceTokens cuda_load_importance(const at::Tensor& logits, const at::Tensor& noisy, const at::Tensor& experts,
                                          double deviation) {
  const c10::DeviceGuard guard(logits.device());
  const std::int64_t tokens = logits.size(0), count = logits.size(1);
  const at::Tensor chosen = experts.contiguous(), given = noisy.contiguous();
  LoadImportanceTokens made{
      .kept = {logits, at::empty({tokens, 1}, logits.options()), deviation},
      .partials = at::empty({token_pieces(tokens), 2 * count}, logits.options().dtype(at::kDouble))};
  kernel_table()->load_importance->sums({.logits = logits.const_data_ptr<float>(),
                                         .noisy = given.const_data_ptr<float>(),
                                         .chosen = chosen.const_data_ptr<std::int64_t>(),
                                         .tokens = tokens,
                                         .experts = static_cast<int>(count),
                                         .choices = static_cast<int>(chosen.size(1)),
                                         .deviation = static_cast<float>(deviation),
                                         .thresholds = made.kept.thresholds.mutable_data_ptr<float>(),
                                         .partials = made.partials.mutable_data_ptr<double>()},
                                        stream_of(logits));
  return made;
}

at::Tensor cuda_with_load_importance(const at::Tensor& totals, const at::Tensor& partials) {
  const c10::DeviceGuard guard(partials.device());
  const at::Tensor before = totals.contiguous();
  at::Tensor all = at::empty({before.numel() + partials.size(1)}, totals.options());
  kernel_table()->load_importance->totals({.partials = partials.const_data_ptr<double>(),
                                           .pieces = partials.size(0),
                                           .experts = static_cast<int>(partials.size(1) / 2),
                                           .before = before.const_data_ptr<double>(),
                                           .numbers = static_cast<int>(before.numel()),
                                           .totals = all.mutable_data_ptr<double>()},
                                          stream_of(partials));
  return all;
}

at::Tensor cuda_load_importance_loss(const at::Tensor& sums, const at::Tensor& loss) {
  const c10::DeviceGuard guard(sums.device());
  const at::Tensor given = sums.contiguous();
  at::Tensor slopes = at::empty(sums.sizes(), sums.options().dtype(at::kFloat));
  kernel_table()->load_importance->loss({.sums = given.const_data_ptr<double>(),
                                         .experts = static_cast<int>(sums.numel() / 2),
                                         .loss = loss.mutable_data_ptr<double>(),
                                         .slopes = slopes.mutable_data_ptr<float>()},
                                        stream_of(sums));
  return slopes;
}

void cuda_add_load_importance_gradient(const at::Tensor& dlogits, const LoadImportance& kept, const at::Tensor& slopes,
                                       const at::Tensor& experts, double scale) {
  const c10::DeviceGuard guard(dlogits.device());
  const at::Tensor chosen = experts.contiguous();
  kernel_table()->load_importance->backward({.logits = kept.logits.const_data_ptr<float>(),
                                             .thresholds = kept.thresholds.const_data_ptr<float>(),
                                             .chosen = chosen.const_data_ptr<std::int64_t>(),
                                             .slopes = slopes.const_data_ptr<float>(),
                                             .tokens = kept.logits.size(0),
                                             .experts = static_cast<int>(kept.logits.size(1)),
                                             .choices = static_cast<int>(chosen.size(1)),
                                             .deviation = static_cast<float>(kept.deviation),
                                             .scale = static_cast<float>(scale),
                                             .dlogits = dlogits.mutable_data_ptr<float>()},
                                            stream_of(dlogits));
}

}  // namespace llmtrain::kernels

// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/mixture_of_experts.h"

#include "kernels/moe/dispatch.h"

namespace llmtrain {

at::Tensor MixtureOfExperts::forward(const at::Tensor& x, Saved& saved, RoutingSums& sums) const {
  saved.map = router_.forward(x, saved.router, sums);
  saved.outputs = experts_.forward(kernels::dispatch_forward(x, saved.map), saved.map, saved.experts);
  return kernels::combine_forward(saved.outputs, saved.router.gates, saved.map);
}

at::Tensor MixtureOfExperts::backward(const at::Tensor& dy, const at::Tensor& x, double share, Saved& saved) const {
  auto [doutputs, dgates] = kernels::combine_backward(dy, saved.outputs, saved.router.gates, saved.map);
  saved.outputs.reset();
  at::Tensor dx;
  {
    // Copied again rather than kept: a pass over memory instead of top_k times the activation.
    const at::Tensor rows = kernels::dispatch_forward(x, saved.map);
    dx = kernels::dispatch_backward(experts_.backward(doutputs, rows, saved.map, saved.experts), saved.map);
  }
  doutputs.reset();
  dx.add_(router_.backward(dgates, x, share, saved.router));
  saved = {};
  return dx;
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/mixture_of_experts.h"

#include "kernels/moe/dispatch.h"

namespace llmtrain {
namespace {

// The rows of the experts that are here.
const kernels::ExpertRows& local_rows(const MixtureOfExperts::Saved& saved) {
  return saved.exchange ? saved.exchange->local() : saved.map;
}

at::Tensor to_experts(const at::Tensor& rows, const MixtureOfExperts::Saved& saved) {
  return saved.exchange ? saved.exchange->to_experts(rows) : rows;
}

at::Tensor from_experts(const at::Tensor& rows, const MixtureOfExperts::Saved& saved) {
  return saved.exchange ? saved.exchange->from_experts(rows) : rows;
}

}  // namespace

at::Tensor MixtureOfExperts::forward(const at::Tensor& x, const ExpertRouter::Pass& pass, Saved& saved,
                                     RoutingSums& sums) const {
  saved.map = router_.forward(x, pass, saved.router, sums);
  if (ranks_ != nullptr) saved.exchange.emplace(*ranks_, saved.map);
  {
    const at::Tensor rows = to_experts(kernels::dispatch_forward(x, saved.map), saved);
    if (saved.exchange) saved.input = rows;
    saved.outputs = from_experts(experts_.forward(rows, local_rows(saved), saved.experts), saved);
  }
  return kernels::combine_forward(saved.outputs, saved.router.gates, saved.map);
}

at::Tensor MixtureOfExperts::backward(const at::Tensor& dy, const at::Tensor& x, const ExpertRouter::Pass& pass,
                                      Saved& saved) const {
  auto [doutputs, dgates] = kernels::combine_backward(dy, saved.outputs, saved.router.gates, saved.map);
  saved.outputs.reset();
  at::Tensor dx;
  {
    // Copied again rather than kept: a pass over memory instead of top_k times the activation. What came from other
    // ranks is kept, as sending costs more.
    const at::Tensor rows = saved.exchange ? saved.input : kernels::dispatch_forward(x, saved.map);
    doutputs = to_experts(doutputs, saved);
    const at::Tensor drows = experts_.backward(doutputs, rows, local_rows(saved), saved.experts);
    dx = kernels::dispatch_backward(from_experts(drows, saved), saved.map);
  }
  doutputs.reset();
  dx.add_(router_.backward(dgates, x, pass, saved.router));
  saved = {};
  return dx;
}

}  // namespace llmtrain

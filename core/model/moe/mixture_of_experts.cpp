// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/mixture_of_experts.h"

#include <utility>

#include "kernels/moe/dispatch.h"

namespace llmtrain {
namespace {

// The rows of the experts that are here.
const kernels::ExpertRows& local_rows(const MixtureOfExperts::Saved& saved) {
  return saved.exchange ? saved.exchange->local() : saved.map;
}

at::Tensor to_experts(at::Tensor rows, const MixtureOfExperts::Saved& saved) {
  return saved.exchange ? saved.exchange->to_experts(std::move(rows)) : rows;
}

at::Tensor from_experts(at::Tensor rows, const MixtureOfExperts::Saved& saved) {
  return saved.exchange ? saved.exchange->from_experts(std::move(rows)) : rows;
}

}  // namespace

at::Tensor MixtureOfExperts::forward(const at::Tensor& x, const ExpertRouter::Pass& pass, Saved& saved,
                                     LayerRouting& routing) const {
  saved.map = router_.forward(x, pass, saved.router, routing);
  if (ranks_.experts != nullptr || ranks_.features != nullptr) saved.exchange.emplace(ranks_, saved.map);
  {
    const ScaledRows rows = experts_.keep(to_experts(kernels::dispatch_forward(x, saved.map), saved));
    if (saved.exchange) saved.input = rows;
    saved.outputs = from_experts(experts_.forward(rows, local_rows(saved), saved.experts), saved);
  }
  return kernels::combine_forward(saved.outputs, saved.router.gates, saved.map);
}

at::Tensor MixtureOfExperts::backward(const at::Tensor& dy, const at::Tensor& x, const ExpertRouter::Pass& pass,
                                      Saved& saved) const {
  auto [doutputs, dgates] = kernels::combine_backward(dy, saved.outputs, saved.router.gates, saved.map);
  saved.outputs.reset();
  at::Tensor drows;
  {
    // Copied again rather than kept: a pass over memory instead of top_k times the activation. What came from other
    // ranks is kept, as sending costs more.
    const ScaledRows rows =
        saved.exchange ? std::move(saved.input) : experts_.keep(kernels::dispatch_forward(x, saved.map));
    drows = experts_.backward(to_experts(std::move(doutputs), saved), rows, local_rows(saved), saved.experts);
  }
  at::Tensor dx = kernels::dispatch_backward(from_experts(std::move(drows), saved), saved.map);
  dx.add_(router_.backward(dgates, x, pass, saved.router));
  saved = {};
  return dx;
}

}  // namespace llmtrain

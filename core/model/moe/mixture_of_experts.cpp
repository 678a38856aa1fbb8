// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/mixture_of_experts.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "core/model/moe/row_parts.h"
#include "kernels/moe/dispatch.h"

namespace llmtrain {
namespace {

// The rows of a part at the experts that are here.
const kernels::ExpertRows& local_rows(const MixtureOfExperts::Saved& saved, std::size_t part) {
  return saved.exchange ? saved.exchange->local(part) : saved.map;
}

at::Tensor through_experts(at::Tensor rows, const MixtureOfExperts::Saved& saved, const RowExchange::Network& network) {
  return saved.exchange ? saved.exchange->through_experts(std::move(rows), network) : network(0, std::move(rows));
}

}  // namespace

at::Tensor MixtureOfExperts::forward(const at::Tensor& x, const ExpertRouter::Pass& pass, Saved& saved,
                                     LayerRouting& routing) const {
  saved.map = router_.forward(x, pass, saved.router, routing);
  const bool splits_experts = ranks_.features != nullptr && ranks_.features->ranks() > 1;
  const bool exchanges = ranks_.experts != nullptr || splits_experts;
  // The one place where the host waits for a GPU, which then knows how many rows go where.
  if (exchanges || experts_.needs_offsets(x.device())) saved.map = kernels::with_offsets(std::move(saved.map));
  if (exchanges) saved.exchange.emplace(ranks_, saved.map);
  const std::int64_t parts = saved.exchange ? saved.exchange->parts() : 1;
  saved.map = in_parts(saved.map, parts);
  saved.parts = std::vector<SavedPart>(static_cast<std::size_t>(parts));
  const auto network = [&](std::size_t part, at::Tensor given) {
    auto& [input, experts] = saved.parts[part];
    const ScaledRows rows = experts_.keep(given);
    given.reset();
    if (saved.exchange) input = rows;
    // All parts meet the same weights.
    experts.scales = saved.parts.front().experts.scales;
    return experts_.forward(rows, local_rows(saved, part), experts);
  };
  saved.outputs = through_experts(kernels::dispatch_forward(x, saved.map), saved, network);
  return kernels::combine_forward(saved.outputs, saved.router.tokens.gates, saved.map);
}

at::Tensor MixtureOfExperts::backward(const at::Tensor& dy, const at::Tensor& x, const ExpertRouter::Pass& pass,
                                      Saved& saved) const {
  auto [doutputs, dgates] = kernels::combine_backward(dy, saved.outputs, saved.router.tokens.gates, saved.map);
  saved.outputs.reset();
  const auto network = [&](std::size_t part, const at::Tensor& gradient) {
    auto& [input, experts] = saved.parts[part];
    // Copied again rather than kept: a pass over memory instead of top_k times the activation. What came from other
    // ranks is kept, as sending costs more.
    const ScaledRows rows = saved.exchange ? std::move(input) : experts_.keep(kernels::dispatch_forward(x, saved.map));
    return experts_.backward(gradient, rows, local_rows(saved, part), experts);
  };
  at::Tensor dx = kernels::dispatch_backward(through_experts(std::move(doutputs), saved, network), saved.map);
  dx.add_(router_.backward(dgates, x, pass, saved.router));
  saved = {};
  return dx;
}

}  // namespace llmtrain

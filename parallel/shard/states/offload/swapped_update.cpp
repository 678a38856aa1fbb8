// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/offload/swapped_update.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/host_copy.h"

namespace llmtrain {

at::Tensor SwappedUpdate::bring(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) return tensor;
  at::Tensor here = at::empty_like(tensor, tensor.options().device(device_).pinned_memory(false));
  send(tensor, here);
  return here;
}

void SwappedUpdate::send(const at::Tensor& from, const at::Tensor& to) {
  to.copy_(from, true);
  bytes_ += static_cast<std::int64_t>(from.nbytes());
}

void SwappedUpdate::run(const Optimizer& optimizer, const OptimizerUpdate& update, UpdatePass pass,
                        const PieceUpdate& make) {
  const std::vector<OptimizerState> states = optimizer.states();
  const std::int64_t elements = update.weights.numel();
  for (std::int64_t begin = 0; begin < elements; begin += piece) {
    const FlatInterval interval{begin, std::min(elements, begin + piece)};
    std::vector<at::Tensor> of_host, here;
    for (const OptimizerState& state : states) {
      of_host.push_back(state.values.slice(0, interval.begin, interval.end));
      here.push_back(bring(of_host.back()));
    }
    OptimizerUpdate of_piece = part_of_update(update, interval, here);
    const at::Tensor weights = std::exchange(of_piece.weights, bring(of_piece.weights));
    of_piece.gradients = bring(of_piece.gradients);
    const std::optional<at::Tensor> rounded = of_piece.compute_weights;
    const bool leave = pass == UpdatePass::update && rounded && rounded->is_cpu();
    if (leave)
      of_piece.compute_weights = at::empty_like(*rounded, rounded->options().device(device_).pinned_memory(false));
    make(of_piece);
    if (pass != UpdatePass::update) continue;
    if (weights.is_cpu()) send(of_piece.weights, weights);
    for (std::size_t i = 0; i < states.size(); ++i) send(here[i], of_host[i]);
    if (leave) send(*of_piece.compute_weights, *rounded);
  }
  kernels::current_stream(device_).synchronize();
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/forward_pass.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <utility>

namespace llmtrain {

at::Tensor ForwardPass::run(const std::optional<PassInput>& input) {
  const at::AutoDispatchBelowADInplaceOrView without_autograd;  // as the runner's steps
  // One micro-batch at a time: without a backward nothing has to be kept, so there is no pipelining to schedule.
  exchange_.start(model_.stage_count(), 1);
  // Bounds the tensors in flight: a rank far ahead of its successor would otherwise fill its memory with sends.
  if (++passes_ % model_.groups().pipeline.ranks() == 0) exchange_.finish();
  at::Tensor output;
  for (const std::size_t stage : model_.held_stages()) {
    if (model_.gathers_for_use()) model_.gather(stage);
    model_.finish_gather(stage);
    if (input) output = run_stage(stage, *input);
    if (model_.gathers_for_use()) model_.free(stage, LocalModel::FreeAfter::forward);
  }
  model_.release_copies();
  return output;
}

at::Tensor ForwardPass::run_stage(std::size_t stage, const PassInput& given) {
  const PipelineParallel& pipeline = model_.groups().pipeline;
  const int ranks = pipeline.ranks(), position = pipeline.position();
  // The sender's tensors have as many tokens, because all pipeline ranks of a copy compute the same micro-batch.
  if (ranks > 1 && stage > 0)
    exchange_.receive(Channel::activations, stage, 0, given.batch, (position + ranks - 1) % ranks);
  Tensors incoming = exchange_.take(Channel::activations, stage, 0);
  StagePasses& passes = *model_.stage(stage).passes;
  Tensors outgoing = passes.forward(std::move(incoming), 0, given.batch, given.context);
  if (model_.is_last(stage)) return std::move(outgoing.front());
  exchange_.put(Channel::activations, stage + 1, 0, std::move(outgoing));
  if (ranks > 1) exchange_.send(Channel::activations, stage + 1, 0, (position + 1) % ranks);
  return {};
}

}  // namespace llmtrain

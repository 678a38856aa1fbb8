// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/forward_pass.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace llmtrain {

StagePasses::Output ForwardPass::run(const std::optional<PassInput>& input) {
  const at::AutoDispatchBelowADInplaceOrView without_autograd;  // as the runner's steps
  // One micro-batch at a time: without a backward nothing has to be kept, so there is no pipelining to schedule.
  exchange_.start(model_.stage_count(), 1);
  // Bounds the tensors in flight: a rank far ahead of its successor would otherwise fill its memory with sends.
  if (++passes_ % model_.groups().pipeline.ranks() == 0) exchange_.finish();
  StagePasses::Output output;
  for (const std::size_t stage : model_.held_stages()) {
    if (model_.gathers_for_use()) model_.gather(stage);
    model_.finish_gather(stage);
    const WeightStream::Use weights(model_.weight_stream(), stage);
    if (input) run_stage(stage, *input, output);
    if (model_.gathers_for_use()) model_.free(stage, LocalModel::FreeAfter::forward);
  }
  model_.release_copies();
  return output;
}

void ForwardPass::run_stage(std::size_t stage, const PassInput& given, StagePasses::Output& output) {
  const PipelineParallel& pipeline = model_.groups().pipeline;
  const int ranks = pipeline.ranks(), position = pipeline.position();
  // The sender's tensors have as many tokens, because all pipeline ranks of a copy compute the same micro-batch.
  if (ranks > 1 && stage > 0)
    exchange_.receive(Channel::activations, stage, 0, given.batch, (position + ranks - 1) % ranks);
  Tensors incoming = exchange_.take(Channel::activations, stage, 0);
  StagePasses& passes = *model_.stage(stage).passes;
  StagePasses::Output own = passes.forward(std::move(incoming), 0, given.batch, given.context);
  std::ranges::move(own.losses, std::back_inserter(output.losses));
  if (own.logits.defined()) output.logits = std::move(own.logits);
  if (model_.is_last(stage)) return;
  exchange_.put(Channel::activations, stage + 1, 0, std::move(own.values));
  if (ranks > 1) exchange_.send(Channel::activations, stage + 1, 0, (position + 1) % ranks);
}

}  // namespace llmtrain

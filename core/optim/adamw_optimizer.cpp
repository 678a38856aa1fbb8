// SPDX-License-Identifier: Apache-2.0
#include "core/optim/adamw_optimizer.h"

#include <algorithm>
#include <utility>

#include "kernels/adamw.h"

namespace llmtrain {

std::vector<OptimizerSegment> merge_segments(const std::vector<OptimizerSegment>& segments) {
  std::vector<OptimizerSegment> merged;
  for (const OptimizerSegment& segment : segments) {
    if (!merged.empty() && merged.back().end == segment.begin && merged.back().decays == segment.decays) {
      merged.back().end = segment.end;
    } else {
      merged.push_back(segment);
    }
  }
  return merged;
}

AdamwOptimizer::AdamwOptimizer(const OptimizerRecipe& recipe, std::vector<OptimizerSegment> segments,
                               at::Tensor first_moment, at::Tensor second_moment)
    : recipe_(recipe),
      segments_(merge_segments(segments)),
      first_moment_(std::move(first_moment)),
      second_moment_(std::move(second_moment)) {}

void AdamwOptimizer::update(const OptimizerUpdate& update) {
  for (const OptimizerSegment& segment : segments_) {
    const auto part = [&](const at::Tensor& flat) { return flat.slice(0, segment.begin, segment.end); };
    kernels::AdamwState state{part(update.weights), part(first_moment_), part(second_moment_)};
    std::optional<at::Tensor> compute_weights;
    if (update.compute_weights) compute_weights = part(*update.compute_weights);
    kernels::AdamwStep step;
    step.learning_rate = update.learning_rate;
    step.beta1 = recipe_.beta1;
    step.beta2 = recipe_.beta2;
    step.eps = recipe_.eps;
    step.weight_decay = segment.decays ? recipe_.weight_decay : 0;
    step.gradient_scale = update.gradient_scale;
    step.step = update.step;
    kernels::adamw_(state, part(update.gradients), step, compute_weights);
  }
}

double clipping_coefficient(double norm, double clip_norm) {
  return clip_norm > 0 ? std::min(1.0, clip_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace llmtrain

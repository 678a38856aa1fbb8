// SPDX-License-Identifier: Apache-2.0
#include "core/optim/optimizer.h"

#include <algorithm>
#include <utility>

#include "kernels/adamw.h"

namespace llmtrain {
namespace {

// Loshchilov and Hutter, arXiv 1711.05101: two moments per weight.
class Adamw final : public Optimizer {
 public:
  Adamw(const OptimizerRecipe& recipe, std::vector<OptimizerSegment> segments, const StateMemory& memory)
      : recipe_(recipe), segments_(std::move(segments)), first_moment_(memory()), second_moment_(memory()) {}

  void update(const OptimizerUpdate& update) override {
    // Parameters with and without decay alternate in flat memory; a segment is one kernel call with one decay.
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

  std::vector<OptimizerState> states() const override { return {{"m", first_moment_}, {"v", second_moment_}}; }

 private:
  OptimizerRecipe recipe_;
  std::vector<OptimizerSegment> segments_;
  at::Tensor first_moment_, second_moment_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerRecipe& recipe, const std::vector<OptimizerSegment>& segments,
                                          const StateMemory& memory) {
  // The key table allows "adamw" only.
  return std::make_unique<Adamw>(recipe, merge_segments(segments), memory);
}

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

double clipping_coefficient(double norm, double clip_norm) {
  // 1e-6 as in PyTorch, so that a norm of 0 does not divide by zero.
  return clip_norm > 0 ? std::min(1.0, clip_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace llmtrain

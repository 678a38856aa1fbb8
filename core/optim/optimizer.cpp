// SPDX-License-Identifier: Apache-2.0
#include "core/optim/optimizer.h"

#include <algorithm>
#include <utility>

#include "core/optim/muon.h"
#include "kernels/adamw.h"

namespace llmtrain {
namespace {

// Loshchilov and Hutter, arXiv 1711.05101: two moments per weight.
class Adamw final : public Optimizer {
 public:
  Adamw(const OptimizerRecipe& recipe, std::vector<OptimizerSegment> segments, const StateMemory& memory)
      : recipe_(recipe),
        segments_(std::move(segments)),
        first_moment_(memory(Moment::first)),
        second_moment_(memory(Moment::second)) {}

  void update(const OptimizerUpdate& update) override {
    Stretch stretch;
    bool decays = false;
    for_segments(update, [&](std::int64_t begin, std::int64_t end, const OptimizerSegment& segment) {
      if (stretch.end != begin || stretch.begin == stretch.end) {
        this->update(update, stretch);
        stretch = {begin, begin, {segment.decays, {}}};
      } else if (segment.decays != decays) {
        stretch.runs.changes.push_back(begin - stretch.begin);
      }
      stretch.end = end;
      decays = segment.decays;
    });
    this->update(update, stretch);
  }

  void find_largest(std::span<const ScaledUpdate> updates) const override {
    if (!updates.empty()) kernels::scaled_adamw_largest(tensors_of(updates), step_of(updates.front().of));
  }

  void update(std::span<const ScaledUpdate> updates) override {
    if (!updates.empty()) kernels::scaled_adamw_(tensors_of(updates), step_of(updates.front().of));
  }

  std::vector<OptimizerState> states() const override { return {{"m", first_moment_}, {"v", second_moment_}}; }

 private:
  // Segments that follow each other, in the optimizer's memory.
  struct Stretch {
    std::int64_t begin = 0, end = 0;
    kernels::DecayRuns runs;
  };

  void update(const OptimizerUpdate& update, const Stretch& stretch) {
    const std::int64_t begin = stretch.begin, end = stretch.end;
    if (begin == end) return;
    const auto part = [&](const at::Tensor& flat) { return part_of(update, flat, begin, end); };
    kernels::AdamwState state{part(update.weights), moment(update, 0, begin, end), moment(update, 1, begin, end)};
    std::optional<at::Tensor> compute_weights;
    if (update.compute_weights) compute_weights = part(*update.compute_weights);
    kernels::adamw_(state, part(update.gradients), step_of(update), compute_weights, stretch.runs);
  }

  // The step of weights that decay.
  kernels::AdamwStep step_of(const OptimizerUpdate& update) const {
    return {.learning_rate = update.learning_rate,
            .beta1 = recipe_.beta1,
            .beta2 = recipe_.beta2,
            .eps = recipe_.eps,
            .weight_decay = recipe_.weight_decay,
            .gradient_scale = update.gradient_scale,
            .step = update.step};
  }

  // Calls work(begin, end, segment) for the segments' elements, in the optimizer's memory, that the update has.
  template <class Work>
  void for_segments(const OptimizerUpdate& update, Work work) const {
    for (const OptimizerSegment& segment : segments_) {
      const std::int64_t begin = std::max(segment.begin, update.begin);
      const std::int64_t end = std::min(segment.end, update.begin + update.weights.numel());
      if (begin < end) work(begin, end, segment);
    }
  }

  std::vector<kernels::ScaledAdamwTensor> tensors_of(std::span<const ScaledUpdate> updates) const {
    std::vector<kernels::ScaledAdamwTensor> tensors;
    for (const ScaledUpdate& update : updates)
      for_segments(update.of, [&](std::int64_t begin, std::int64_t end, const OptimizerSegment& segment) {
        tensors.push_back({scaled_state(update, begin, end), segment.decays, update.numbers, update.rounding});
        if (update.rounding) tensors.back().rounding->skipped += begin - update.of.begin;
      });
    return tensors;
  }

  kernels::ScaledAdamwState scaled_state(const ScaledUpdate& update, std::int64_t begin, std::int64_t end) const {
    const auto part = [&](const at::Tensor& flat) { return part_of(update.of, flat, begin, end); };
    const auto scale = [&](std::int64_t of) { return update.scales.narrow(0, of, 1); };
    return {{part(update.of.weights), scale(0)},
            {moment(update.of, 0, begin, end), scale(1)},
            {moment(update.of, 1, begin, end), scale(2)},
            {part(update.of.gradients), update.gradient_scale}};
  }

  // Elements [begin, end) of this memory in a tensor of the update.
  static at::Tensor part_of(const OptimizerUpdate& update, const at::Tensor& flat, std::int64_t begin,
                            std::int64_t end) {
    return flat.slice(0, begin - update.begin, end - update.begin);
  }

  // The same of the first or the second moment, which the update brings or this has.
  at::Tensor moment(const OptimizerUpdate& update, std::size_t index, std::int64_t begin, std::int64_t end) const {
    if (!update.states.empty()) return part_of(update, update.states[index], begin, end);
    return (index == 0 ? first_moment_ : second_moment_).slice(0, begin, end);
  }

  OptimizerRecipe recipe_;
  std::vector<OptimizerSegment> segments_;
  at::Tensor first_moment_, second_moment_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerRecipe& recipe, const std::vector<OptimizerSegment>& segments,
                                          const StateMemory& memory, const WholeMatrices* matrices) {
  if (matrices != nullptr) return std::make_unique<Muon>(recipe, memory, *matrices);
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

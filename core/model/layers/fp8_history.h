// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/graph/fp8_products.h"
#include "core/model/layers/maxima_window.h"
#include "core/recipe/recipe.h"
#include "kernels/fp8/fp8.h"

namespace llmtrain {

constexpr kernels::Fp8Format fp8_format(Fp8Operand operand) {
  return operand == Fp8Operand::output_gradient ? kernels::Fp8Format::e5m2 : kernels::Fp8Format::e4m3;
}

// Delayed scaling (Transformer Engine's DelayedScaling with the algorithm "max"; Micikevicius et al., arXiv 2209.05433,
// section 3.3): a step casts each operand of a linear layer with the scale of its largest magnitude in the steps
// before, so that neither a pass over the operand nor the ranks that hold parts of it must say what it is. What is
// larger saturates. Maxima are those of a step's whole tensors over all micro-batches and ranks, so that scales do not
// depend on the layout; an operand without one yet is left to current scaling.
//
// A product of which an operand is larger than that in several steps in a row can leave FP8 for good, on request: its
// magnitudes grow faster than any history shows. Which one does follows from the same maxima, on all ranks alike.
//
// The history is the host's. On a GPU a step has its scales and what it notes in device memory: the scales go there
// once per step, and maxima come back with its scalars, so that no pass waits for the host.
//
// All ranks hold the histories of all linear layers, which are few numbers: any of them can write a checkpoint, and any
// layout reads it.
class Fp8History {
 public:
  // A product that leaves FP8, and why.
  struct Fallback {
    std::size_t product = 0;
    Fp8Operand operand{};
    double largest = 0;  // of the operand in the last step
    double range = 0;    // the largest magnitude that its scale could represent there
  };
  // `products`: the first weights of the linear layers, by which they are named below (core/graph/fp8_products.h).
  // `fallback_steps`: after how many of them in a row a product leaves FP8; 0: never.
  Fp8History(std::vector<std::size_t> products, const Fp8ScalingRecipe& recipe, std::int64_t fallback_steps = 0);

  const std::vector<std::size_t>& products() const { return products_; }

  // In a step: notes an operand's largest magnitude in a pass, which may be not finite.
  void note(std::size_t product, Fp8Operand operand, float largest);
  // The same of device memory, fp32 [1], on the current stream.
  void note(std::size_t product, Fp8Operand operand, const at::Tensor& largest);
  // The scale that the operand has in this step; 0 where it has no history.
  float scale(std::size_t product, Fp8Operand operand) const;
  // The same on a GPU, fp32 [1], until the next step.
  at::Tensor scale_on(const at::Device& device, std::size_t product, Fp8Operand operand);
  // Whether the product has left FP8: it has no more operands to note.
  bool has_fallen_back(std::size_t product) const;

  // The largest of each operand that this rank has noted since the last call; 0 of what it has not seen. fp32, in the
  // order of the products, and of each in that of Fp8Operand; on the device of the passes, and nobody waits for it.
  at::Tensor take_largest();
  // Ends a step with the largest of all ranks; returns the products that leave FP8 from the next one on. Where a number
  // is not finite, the step leaves no trace.
  std::vector<Fallback> record(std::span<const double> largest);

  // What checkpoints keep of a product: its index among all. At the same address until the next step.
  struct StateView {
    // The maxima [steps, operands] of as many steps as the recipe says, the newest first; 0 of those that have not
    // been.
    std::span<const float> maxima;
    // In how many steps in a row, up to the last one, an operand was too large; and 1 where the product has left FP8.
    std::span<const float, 2> fallback;
  };
  StateView state(std::size_t index) const { return {tracks_[index].maxima.newest_first(), tracks_[index].fallback}; }
  // Takes as many maxima as the recipe's history has room for, or fewer.
  struct State {
    std::vector<float> maxima;
    std::array<float, 2> fallback{};
  };
  void set_state(std::size_t index, const State& state);

 private:
  using Numbers = std::array<float, fp8_operands>;
  struct Track {
    MaximaWindow maxima;
    std::array<float, 2> fallback{};
    Numbers noted{};   // in this step, on this rank
    Numbers scales{};  // of this step
  };

  void choose_scales(Track& track);
  at::Tensor place_of(const at::Tensor& numbers, std::size_t product, Fp8Operand operand) const;
  // The operand of a step's maxima that is most beyond what its scale represents; none: all are within.
  static std::optional<Fallback> overflow(const Track& track, std::span<const double> newest);

  std::vector<std::size_t> products_;
  float margin_;  // a factor of scales
  float fallback_steps_;
  std::unordered_map<std::size_t, std::size_t> index_;  // into tracks_, by product
  std::vector<Track> tracks_;
  // fp32 [products · operands] on a GPU; undefined until they are used, and the scales after they have changed.
  at::Tensor device_noted_, device_scales_;
};

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// Neighbouring parameters that are treated alike, in elements of the flat memory.
struct OptimizerSegment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool decays = false;
};

// Joins segments that touch and agree, so that the optimizer makes few long passes.
std::vector<OptimizerSegment> merge_segments(const std::vector<OptimizerSegment>& segments);

// What one update needs beside the moments. All tensors are flat and of the same length.
struct OptimizerUpdate {
  at::Tensor weights;                         // fp32 master weights, changed in place
  at::Tensor gradients;                       // any float type
  std::optional<at::Tensor> compute_weights;  // receives the rounded weights
  double learning_rate = 0;
  double gradient_scale = 1;  // the clipping coefficient
  std::int64_t step = 1;      // counts from 1
};

// AdamW over the flat memory of one store: owns the two moments (fp32), which start at zero.
class AdamwOptimizer {
 public:
  AdamwOptimizer(const OptimizerRecipe& recipe, std::vector<OptimizerSegment> segments, at::Tensor first_moment,
                 at::Tensor second_moment);

  void update(const OptimizerUpdate& update);

  const at::Tensor& first_moment() const { return first_moment_; }
  const at::Tensor& second_moment() const { return second_moment_; }

 private:
  OptimizerRecipe recipe_;
  std::vector<OptimizerSegment> segments_;
  at::Tensor first_moment_, second_moment_;
};

// PyTorch's clip_grad_norm_: the factor that brings a gradient of this norm to at most `clip_norm`; 1 when it is off
// (0).
double clipping_coefficient(double norm, double clip_norm);

}  // namespace llmtrain

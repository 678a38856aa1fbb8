// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/optim/whole_matrices.h"
#include "core/recipe/recipe.h"
#include "kernels/random/stochastic_rounding.h"

namespace llmtrain {

// Adjacent parameters that are treated alike, in elements of flat memory.
struct OptimizerSegment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool decays = false;
};

// Elements of an optimizer's weights and states that are not where it computes: what an update that needs them in
// another order than that of flat memory is given instead.
class ElsewhereStates {
 public:
  ElsewhereStates() = default;
  ElsewhereStates(const ElsewhereStates&) = delete;
  ElsewhereStates& operator=(const ElsewhereStates&) = delete;
  virtual ~ElsewhereStates() = default;

  // The weights, or with `state` 1 and more the states in the order of Optimizer::states(). Elements [begin, end),
  // flat, where the update computes: to be changed, and then stored, after which they are not used.
  virtual at::Tensor fetch(std::size_t state, std::int64_t begin, std::int64_t end) = 0;
  // What was fetched from `begin` on, as it is now. An update stores each element of every state once, the weights
  // last.
  virtual void store(std::size_t state, std::int64_t begin, const at::Tensor& values) = 0;
  // Flat values of another tensor of the update where it computes, to be read until the next store().
  virtual at::Tensor bring(const at::Tensor& values) = 0;
  // Copies what the update has made, and does not use after the next store(), to another tensor of the update.
  virtual void leave(const at::Tensor& values, const at::Tensor& to) = 0;
};

// Inputs of one update in addition to the optimizer's own state. All tensors are flat and of the same length.
struct OptimizerUpdate {
  at::Tensor weights;                         // fp32 master weights, changed in place
  at::Tensor gradients;                       // any float type
  std::optional<at::Tensor> compute_weights;  // receives the rounded weights
  double learning_rate = 0;
  double gradient_scale = 1;  // the clipping coefficient
  std::int64_t step = 1;      // counts from 1
  std::int64_t begin = 0;     // where the tensors start in the optimizer's flat memory, of which they may be a part
  // The optimizer's states of these elements, in the order of states(), where it has no memory of its own for them;
  // changed in place.
  std::vector<at::Tensor> states{};
  // Muon's: has the weights and states, of which those here are then not read.
  ElsewhereStates* elsewhere = nullptr;
};

// State that an optimizer keeps per weight, as checkpoints name it: "<parameter>.m".
struct OptimizerState {
  std::string name;
  at::Tensor values;  // flat, as long as the weights
};

// An update of elements of one tensor whose weights and gradients are in small types, and the states or not: value =
// payload / scale, with powers of two as scales, which are 1 of states in fp32. Numbers below are fp32 tensors on the
// weights' device: [1 + states], one of the weights and after it one of each state, in the order of states().
struct ScaledUpdate {
  OptimizerUpdate of;         // with payloads as weights (fp16) and gradients (E4M3, or fp32), and no compute weights
  at::Tensor scales;          // in which weights and states are stored
  at::Tensor gradient_scale;  // fp32 [1], that of the payloads; the clipping coefficient is of.gradient_scale
  at::Tensor numbers;         // magnitudes that are found, or the next scales
  // How what is stored is rounded at random; none: to nearest.
  std::optional<kernels::StochasticRounding> rounding = std::nullopt;
};

// The passes of an update over states in small types; others take the second alone.
enum class UpdatePass { find_largest, update };

// Updates the flat memory of one group of parameters.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  virtual void update(const OptimizerUpdate& update) = 0;
  // Small types take two passes: the first finds the largest magnitudes of what the updates would leave and of the
  // `numbers`, which become them, and the second stores that with the scales `numbers`, which the caller has chosen by
  // them and keeps. Where only the weights are small, the second does if the scale has room for the step. The updates,
  // of tensors one after the other, have the same learning rate, clipping coefficient and step.
  virtual void find_largest(std::span<const ScaledUpdate> updates) const = 0;
  virtual void update(std::span<const ScaledUpdate> updates) = 0;
  virtual std::vector<OptimizerState> states() const = 0;
};

// Allocates flat memory for a state, zero: fp32, or with scaled updates the first moment in E4M3 and the second in
// fp16. On the Meta device where each update brings its states.
enum class Moment { first, second };
using StateMemory = std::function<at::Tensor(Moment)>;

// The optimizer of one group of parameters: Muon of a group of matrices, which outlive it, else AdamW, also where the
// recipe names Muon, which leaves everything but the layers' matrices to AdamW.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerRecipe& recipe, const std::vector<OptimizerSegment>& segments,
                                          const StateMemory& memory, const WholeMatrices* matrices = nullptr);

// Merges adjacent segments that are treated alike, so that an optimizer makes few long passes.
std::vector<OptimizerSegment> merge_segments(const std::vector<OptimizerSegment>& segments);

// As PyTorch's clip_grad_norm_: the factor that scales a gradient of this norm to at most `clip_norm`; 1 when clipping
// is off (0).
double clipping_coefficient(double norm, double clip_norm);

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace llmtrain::kernels {

// The passes over flat memory of Muon's update (core/optim/muon.h), beside orthogonalize(). Tensors are flat,
// contiguous and of one length, on one device. On a GPU each call is one kernel, for which the host does not wait.

// How a mean takes in a gradient: momentum · mean + (1 − momentum) · gradient_scale · gradient.
struct MuonMean {
  double momentum = 0.95;
  double gradient_scale = 1;  // the clipping coefficient
};

// In place. `mean` is in fp32, gradients in any float type.
void muon_mean_(const at::Tensor& mean, const at::Tensor& gradients, const MuonMean& how);
// The same in new memory, of a mean that has taken in these gradients already: Nesterov's momentum.
at::Tensor muon_mean_ahead(const at::Tensor& mean, const at::Tensor& gradients, const MuonMean& how);

struct MuonStep {
  double learning_rate = 0;
  double weight_decay = 0;
};

// weights ← (1 − learning_rate · weight_decay) · weights − learning_rate · values, in fp32. `compute_weights`, when
// given, receives the rounded new weights.
void muon_step_(const at::Tensor& weights, const at::Tensor& values, const MuonStep& step,
                const std::optional<at::Tensor>& compute_weights);

}  // namespace llmtrain::kernels

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/muon/muon.h"

namespace llmtrain::kernels {

// The parts of Muon's update on a GPU, one kernel each.

// Whether there are kernels for a contiguous array in fp32 with this other one, in any type that kernels take.
bool has_cuda_muon(const at::Tensor& fp32, const at::Tensor& other);

// As muon_mean_() into `result`, which may be the mean; muon_step_().
void cuda_muon_mean(const at::Tensor& mean, const at::Tensor& gradients, const MuonMean& how, const at::Tensor& result);
void cuda_muon_step_(const at::Tensor& weights, const at::Tensor& values, const MuonStep& step,
                     const std::optional<at::Tensor>& compute_weights);

// What orthogonalize() has around its products: an fp32 matrix over its norm, in new memory of type `to`; the
// polynomial of a Gram matrix in place of its square; scale · x in new memory in fp32.
at::Tensor cuda_muon_normalized(const at::Tensor& matrix, const at::Tensor& sum_of_squares, double smallest_norm,
                                at::ScalarType to);
struct MuonPolynomial {
  double unit = 0, gram = 0, square = 0;  // coefficients
};
void cuda_muon_polynomial_(const at::Tensor& square, const at::Tensor& gram, const MuonPolynomial& polynomial);
at::Tensor cuda_muon_scaled(const at::Tensor& x, double scale);

}  // namespace llmtrain::kernels

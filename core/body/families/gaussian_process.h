// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/body/body.h"

namespace llmtrain::body {

// Regression by a sparse Gaussian process: m inducing points stand for all others (Titsias, AISTATS 2009).
struct GaussianProcess {
  std::int64_t inducing = 0, features = 0;
  double jitter = 1e-6;  // added to the diagonal of the inducing points' covariances
};

// The loss of a model of so many points, a number without axes: what Titsias' bound of −log p(y) is for one point, but
// for the constant ½·log 2π,
//
//   1/n · (log|B|/2 − n/2·log β + β/2·yᵀy − cᵀc/2 + β/2·(n·v − tr A·Aᵀ)), A = L⁻¹·K(z, x), B = 1 + β·A·Aᵀ,
//   c = β·chol(B)⁻¹·A·y, L·Lᵀ = K(z, z) + jitter.
//
// Reads the input "x" [points, features] and the field "y" [y, points], whose first axis has one element; the
// parameters "inducing" [inducing, features], which are the z above, "log_inverse_lengths" [features] and, without
// axes, "log_variance" and "log_precision": K(z, x) = v·exp(−½·Σ ((z − x) ÷ length)²), and β is 1 ÷ the noise's
// variance. What grows with the number of points is summed up along "points", so that in pieces
// (core/body/passes/chunking.h) inducing × points elements are never there.
Body sparse_gaussian_process(const GaussianProcess& model, std::int64_t points);

}  // namespace llmtrain::body

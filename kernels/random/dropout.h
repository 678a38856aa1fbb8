// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/sequence_part.h"

namespace llmtrain::kernels {

// A mask that depends on (seed, step, site, element index of the unsharded tensor) and nothing else, so that it is the
// same on every layout and can be made again in the backward instead of being saved.
struct Dropout {
  double probability = 0;
  std::uint64_t key = 0;           // dropout_key(): which site of which step
  std::int64_t first_element = 0;  // index of x's first element in the unsharded tensor
  // Where x is a part of each sample, such as some of its attention heads: x consists of runs of `run` elements whose
  // starts are `stride` apart in the unsharded tensor. 0: all of x is one run.
  std::int64_t run = 0;
  std::int64_t stride = 0;

  bool active() const { return probability > 0; }
};

// The first two words of philox(seed, counter = (step, site)).
std::uint64_t dropout_key(std::int64_t seed, std::int64_t step, std::uint64_t site);

// x is contiguous. Zeroes element i where philox(key, i/4)[i mod 4] < probability·2³², multiplies the others by
// 1/(1 − probability). Forward and backward are the same operation. Throws Error(internal_error) for a probability
// outside [0, 1), for an x that is not contiguous, or for runs that do not fill it.
void dropout_(at::Tensor& x, const Dropout& dropout);

// The same for contiguous x [rows, width] that holds some rows of the unsharded tensor. `run` and `stride` count
// elements of whole sequences' rows.
void dropout_rows_(at::Tensor& x, const Dropout& dropout, const RowsAtHand& rows);
// The same in new memory; x itself where dropout is not active.
at::Tensor dropped_rows(const at::Tensor& x, const Dropout& dropout, const RowsAtHand& rows);
// x = dropout(x) + residual, which is contiguous as well, each rounded to x's type.
void add_dropped_rows_(at::Tensor& x, const at::Tensor& residual, const Dropout& dropout, const RowsAtHand& rows);

}  // namespace llmtrain::kernels

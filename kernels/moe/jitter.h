// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/sequence_part.h"

namespace llmtrain::kernels {

// Random factors of a router's inputs, uniform in 1 ± amplitude (Fedus et al., arXiv 2101.03961, appendix A). They
// depend on the key and the element's index in the unsharded tensor alone, so that the backward makes them again.
struct Jitter {
  double amplitude = 0;
  std::uint64_t key = 0;           // dropout_key(): which site of which step
  std::int64_t first_element = 0;  // index of x's first element in the unsharded tensor

  bool active() const { return amplitude > 0; }
};

// Multiplies x (fp32 or float64, contiguous) by its factors, in place. Forward and backward are the same operation.
// They have the same bits on every device. On a GPU in fp32 one kernel, here and below, with no memory beside, where
// the runs of rows have one length and are equally far apart.
void jitter_(at::Tensor& x, const Jitter& jitter);

// The same for contiguous x [rows, width] that holds some rows of the unsharded tensor.
void jitter_rows_(at::Tensor& x, const Jitter& jitter, const RowsAtHand& rows);

// A copy of contiguous x [rows, width], of any type, times its factors: fp32, of float64 float64.
at::Tensor jittered_rows(const at::Tensor& x, const Jitter& jitter, const RowsAtHand& rows);

}  // namespace llmtrain::kernels

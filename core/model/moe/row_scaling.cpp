// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/row_scaling.h"

#include <ATen/TensorOperators.h>

namespace llmtrain {

using kernels::Fp8Format;

at::Tensor ScaledRows::widened(at::ScalarType compute) const {
  return scales.defined() ? kernels::widen_fp8(values, scales, compute) : values;
}

at::Tensor RowScaling::scales(const at::Tensor& x, Fp8Format format, Columns columns) const {
  at::Tensor largest = kernels::largest_row_magnitudes(x);
  if (features_ != nullptr && columns == Columns::split)
    largest = features_->gather_rows(largest).view({features_->ranks(), x.size(0), 1}).amax({0});
  return kernels::fp8_scale(largest, format);
}

ScaledRows RowScaling::cast(const at::Tensor& x, const at::Tensor& scales, Fp8Format format) {
  return {kernels::cast_to_fp8(x, scales, format), scales};
}

void RowScaling::round_in_place(const at::Tensor& x, const at::Tensor& scales, Fp8Format format) {
  kernels::round_to_fp8_(x, scales, format);
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8/stored_matrix.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels/fp8/fp8_cuda.h"

namespace llmtrain::kernels {
namespace {

bool is_read_as_kept(const StoredMatrix& matrix) {
  if (!matrix.scales.defined()) return false;
  const at::Tensor& payload = matrix.payload;
  const std::int64_t columns = payload.size(1), rows = fp8_stored_rows * columns;
  return has_cuda_fp8(payload) && payload.scalar_type() == at::kHalf && matrix.type == at::kBFloat16 &&
         matrix.parts.size() <= most_fp8_stored_parts && columns % fp8_stored_elements == 0 &&
         std::ranges::all_of(matrix.parts, [&](const FlatPart& part) { return part.end % rows == 0; });
}

}  // namespace

at::Tensor widened(const StoredMatrix& matrix) {
  if (!matrix.scales.defined()) return matrix.payload;
  at::Tensor values = at::empty(matrix.payload.sizes(), matrix.payload.options().dtype(matrix.type));
  widen_parts(matrix.payload.view({-1}), matrix.scales, matrix.parts, values.view({-1}));
  return values;
}

at::Tensor cast_to_fp8(const StoredMatrix& matrix, const at::Tensor& scale) {
  return is_read_as_kept(matrix) ? cuda_cast(matrix, scale) : cast_to_fp8(widened(matrix), scale, Fp8Format::e4m3);
}

at::Tensor cast_to_fp8_transposed(const StoredMatrix& matrix, const at::Tensor& scale) {
  return is_read_as_kept(matrix) ? cuda_cast_transposed(matrix, scale)
                                 : cast_to_fp8_transposed(widened(matrix), scale, Fp8Format::e4m3);
}

ShownFp8 cast_and_show(const StoredMatrix& matrix, const at::Tensor& scale) {
  return is_read_as_kept(matrix) ? cuda_shown_cast(matrix, scale)
                                 : cast_and_show(widened(matrix), scale, Fp8Format::e4m3);
}

}  // namespace llmtrain::kernels

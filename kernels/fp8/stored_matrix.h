// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/fp8/fp8.h"
#include "kernels/fp8/parts.h"

namespace llmtrain::kernels {

// A matrix of consecutive ones as they are kept: in fp16 or E4M3, each with a scale, value = payload / scale in the
// type that it is computed with, or as the values. Scales are powers of two.
struct StoredMatrix {
  at::Tensor payload;           // [rows, columns], contiguous
  at::Tensor scales;            // fp32 [parts], where the payload is; undefined: the payload is the values
  std::vector<FlatPart> parts;  // of the payload's elements, in order
  at::ScalarType type = at::kFloat;
};

// The values, of scales a new matrix; ordered on the current stream on a GPU.
at::Tensor widened(const StoredMatrix& matrix);

// Those of widened(matrix) (kernels/fp8/fp8.h), with the same bits, to E4M3 with a scale [1]. On a GPU fp16 that is
// computed with in bf16 is read as it is kept where the parts' rows are multiples of 4 and the columns of 16.
at::Tensor cast_to_fp8(const StoredMatrix& matrix, const at::Tensor& scale);
at::Tensor cast_to_fp8_transposed(const StoredMatrix& matrix, const at::Tensor& scale);
ShownFp8 cast_and_show(const StoredMatrix& matrix, const at::Tensor& scale);

}  // namespace llmtrain::kernels

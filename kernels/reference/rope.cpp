// SPDX-License-Identifier: Apache-2.0
#include "kernels/accumulation_type.h"
#include "kernels/reference/operators.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

namespace llmtrain::kernels::reference {

void rope_(at::Tensor& x, const RopeTable& table, std::int64_t sequence_length, RopeDirection direction) {
  const at::ScalarType sum_type = accumulation_type(x);
  const at::Tensor positions =
      at::arange(x.size(0), table.cosine.options().dtype(at::kLong)).remainder(sequence_length);
  const at::Tensor cosine = table.cosine.index_select(0, positions).to(sum_type).unsqueeze(1);
  at::Tensor sine = table.sine.index_select(0, positions).to(sum_type).unsqueeze(1);
  if (direction == RopeDirection::backward) sine = -sine;
  const std::int64_t half = x.size(-1) / 2;
  at::Tensor low = x.narrow(-1, 0, half);
  at::Tensor high = x.narrow(-1, half, half);
  const at::Tensor a = low.to(sum_type);
  const at::Tensor b = high.to(sum_type);
  // Both results before either is stored: in fp32 a and b are views of x.
  const at::Tensor rotated_low = a * cosine - b * sine;
  const at::Tensor rotated_high = b * cosine + a * sine;
  low.copy_(rotated_low);
  high.copy_(rotated_high);
}

}  // namespace llmtrain::kernels::reference

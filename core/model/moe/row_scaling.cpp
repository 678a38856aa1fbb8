// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/row_scaling.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>

#include <algorithm>

namespace llmtrain {
namespace {

using kernels::Fp8Format;

// Bounds the fp32 copies that a conversion works on.
constexpr std::int64_t piece_elements = std::int64_t{1} << 18;

// Calls work(first row, rows) for pieces of x.
template <class Work>
void for_pieces(const at::Tensor& x, Work work) {
  const std::int64_t rows = x.size(0),
                     each = std::max<std::int64_t>(1, piece_elements / std::max<std::int64_t>(1, x.size(1)));
  for (std::int64_t first = 0; first < rows; first += each) work(first, std::min(each, rows - first));
}

// Of a piece of rows. LibTorch's cast rounds to nearest but does not saturate.
at::Tensor payload_of(const at::Tensor& rows, const at::Tensor& scales, Fp8Format format) {
  const double largest = kernels::largest_of(format);
  return rows.to(at::kFloat).mul(scales).clamp_(-largest, largest).to(kernels::fp8_type(format));
}

}  // namespace

at::Tensor ScaledRows::widened(at::ScalarType compute) const {
  if (!scales.defined()) return values;
  const at::Tensor result = at::empty(values.sizes(), values.options().dtype(compute));
  // Exact: payloads have few digits, and scales are powers of two.
  for_pieces(values, [&](std::int64_t first, std::int64_t rows) {
    result.narrow(0, first, rows)
        .copy_(values.narrow(0, first, rows).to(at::kFloat).div_(scales.narrow(0, first, rows)));
  });
  return result;
}

at::Tensor RowScaling::scales(const at::Tensor& x, Fp8Format format, Columns columns) const {
  const auto [least, most] = at::aminmax(x, 1, true);
  at::Tensor largest = at::maximum(most, -least).to(at::kFloat);
  if (features_ != nullptr && columns == Columns::split)
    largest = features_->gather_rows(largest).view({features_->ranks(), x.size(0), 1}).amax({0});
  return kernels::fp8_scale(largest, format);
}

ScaledRows RowScaling::cast(const at::Tensor& x, const at::Tensor& scales, Fp8Format format) {
  const ScaledRows result{at::empty(x.sizes(), x.options().dtype(kernels::fp8_type(format))), scales};
  for_pieces(x, [&](std::int64_t first, std::int64_t rows) {
    result.values.narrow(0, first, rows)
        .copy_(payload_of(x.narrow(0, first, rows), scales.narrow(0, first, rows), format));
  });
  return result;
}

void RowScaling::round_in_place(const at::Tensor& x, const at::Tensor& scales, Fp8Format format) {
  for_pieces(x, [&](std::int64_t first, std::int64_t rows) {
    const at::Tensor scale = scales.narrow(0, first, rows);
    const at::Tensor payload = payload_of(x.narrow(0, first, rows), scale, format);
    x.narrow(0, first, rows).copy_(payload.to(at::kFloat).div_(scale));
  });
}

}  // namespace llmtrain

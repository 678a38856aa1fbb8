// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows with matrices of their own, as LibTorch has them on GPUs of compute capability 9 and 10:
// bf16, or E4M3 with a scale for each row and column. Demands are those of LibTorch's operators, and of its CUDA
// kernels (aten/src/ATen/native/GroupedMMUtils.h, ScaledGroupMM.cu). What the kernels leave unwritten is NaN here: rows
// after the last group's, and all of a group without rows where groups divide the sum.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <limits>

#include "tests/emulator/torch/backend.h"

namespace emulated {
namespace {

using Matrices = const at::Tensor&;

// Whether the last two axes are those of a matrix that is stored by columns.
bool check_strides(const char* name, Matrices m) {
  const std::int64_t rows = m.size(-2), columns = m.size(-1), unit = 16 / m.element_size();
  TORCH_CHECK(reinterpret_cast<std::uintptr_t>(m.const_data_ptr()) % 16 == 0, name,
              ": expected data_ptr to be aligned to 16 bytes");
  const bool by_columns = m.stride(-2) == 1 && m.stride(-1) >= std::max<std::int64_t>(1, rows);
  const bool by_rows = m.stride(-1) == 1 && m.stride(-2) >= std::max<std::int64_t>(1, columns);
  TORCH_CHECK(by_columns || by_rows, name, ": invalid strides/sizes, got ", m.strides(), " for strides and ", m.sizes(),
              " for sizes");
  TORCH_CHECK(m.stride(by_columns ? -1 : -2) % unit == 0, name, ": strides should be multiple of 16 bytes");
  // The copies of blocks take one stride for each further axis.
  TORCH_CHECK(m.dim() == 2 || m.stride(0) % unit == 0, name, ": strides should be multiple of 16 bytes");
  return by_columns;
}

void check_offsets(Matrices a, Matrices b, const std::optional<at::Tensor>& ends) {
  TORCH_CHECK((a.dim() == 2 || a.dim() == 3) && (b.dim() == 2 || b.dim() == 3), "matrices have to be 2-D or 3-D");
  TORCH_CHECK(ends.has_value() == (a.dim() == 2 || b.dim() == 2),
              "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
  if (a.dim() == 3 || b.dim() == 3)
    TORCH_CHECK(a.size(-1) == b.size(-2), "contraction dimension of mat_a and mat_b must match");
  if (!ends) {
    TORCH_CHECK(a.size(0) == b.size(0), "batched dimension has to match");
    return;
  }
  TORCH_CHECK(ends->dim() == 1, "offs has to be 1D");
  TORCH_CHECK(ends->scalar_type() == at::kInt, "Offsets have to be int32");
  TORCH_CHECK(ends->is_cuda(), "offsets have to be on the device");
  TORCH_CHECK(a.dim() == 2 || ends->size(0) == a.size(0), "matrix batch sizes have to match");
  TORCH_CHECK(b.dim() == 2 || ends->size(0) == b.size(0), "matrix batch sizes have to match");
}

// A result whose rows begin at multiples of 16 bytes.
at::Tensor result_of(Matrices a, Matrices b, const std::optional<at::Tensor>& ends) {
  const std::int64_t unit = 8, rows = a.size(-2), columns = b.size(-1), padded = (columns + unit - 1) / unit * unit;
  const auto options = a.options().dtype(at::kBFloat16);
  if ((a.dim() == 2) != (b.dim() == 2)) return at::empty_strided({rows, columns}, {padded, 1}, options);
  const std::int64_t groups = ends ? ends->size(0) : a.size(0);
  return at::empty_strided({groups, rows, columns}, {rows * padded, padded, 1}, options);
}

// Calls group(g, begin, length of the group) for groups that end at `ends`, which do not descend.
template <class Group>
void for_each_group(const at::Tensor& ends, std::int64_t most, Group group) {
  std::int64_t begin = 0;
  for (std::int64_t g = 0; g < ends.size(0); ++g) {
    const std::int64_t end = ends.const_data_ptr<std::int32_t>()[g];
    TORCH_CHECK(begin <= end && end <= most, "group ", g, " begins at ", begin, " and ends at ", end, " of ", most);
    group(g, begin, end - begin);
    begin = end;
  }
}

// Products of fp32 operands, rounded once; `ends` is undefined where both are 3-D.
void multiply(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends, const at::Tensor& out) {
  out.fill_(std::numeric_limits<double>::quiet_NaN());
  if (!ends.defined()) {
    out.copy_(at::matmul(a, b));
  } else if (a.dim() == 2 && b.dim() == 3) {
    for_each_group(ends, a.size(0), [&](auto g, auto begin, auto length) {
      if (length > 0) out.narrow(0, begin, length).copy_(at::mm(a.narrow(0, begin, length), b[g]));
    });
  } else if (a.dim() == 3) {
    for_each_group(ends, b.size(1), [&](auto g, auto begin, auto length) {
      if (length > 0) out.narrow(1, begin, length).copy_(at::mm(a[g], b.narrow(1, begin, length)));
    });
  } else {
    for_each_group(ends, a.size(1), [&](auto g, auto begin, auto length) {
      if (length > 0) out[g].copy_(at::mm(a.narrow(1, begin, length), b.narrow(0, begin, length)));
    });
  }
}

at::Tensor grouped_mm(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& ends,
                      const std::optional<at::Tensor>& bias, std::optional<at::ScalarType> type) {
  // Other types make LibTorch's operator wait for the offsets and multiply one group after another.
  TORCH_CHECK(a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16, "bf16 alone runs in one kernel");
  TORCH_CHECK(type.value_or(at::kBFloat16) == at::kBFloat16, "Grouped gemm output dtype must match `mat_a` dtype");
  TORCH_CHECK(!bias, "Bias not supported yet");
  TORCH_CHECK(a.numel() > 0 && b.numel() > 0, "the kernels' behaviour without elements is not known");
  check_offsets(a, b, ends);
  check_strides("mat_a", a);
  check_strides("mat_b", b);
  const at::Tensor out = result_of(a, b, ends);
  std::vector<at::Tensor> inputs{a, b};
  if (ends) inputs.push_back(*ends);
  on_stream("_grouped_mm", inputs, {out}, [](const auto& in, const auto& to) {
    multiply(in[0].to(at::kFloat), in[1].to(at::kFloat), in.size() > 2 ? in[2] : at::Tensor(), to[0]);
  });
  return out;
}

// One number for each row, or column, of each group: [rows] of a 2-D operand, once more for each group where groups
// divide the sum; [groups, rows] of a 3-D one.
void check_scales(const char* name, const at::Tensor& scales, Matrices m, std::int64_t axis, std::int64_t copies) {
  TORCH_CHECK(scales.scalar_type() == at::kFloat && scales.is_cuda(), name, " has to be float32, on the device");
  if (m.dim() == 2) {
    TORCH_CHECK(scales.dim() == 1 && scales.is_contiguous() && scales.size(0) == m.size(axis) * copies, "Expected ",
                name, " to be 1D, contiguous and of ", m.size(axis) * copies, " elements, got ", scales.sizes());
  } else {
    TORCH_CHECK(
        scales.dim() == 2 && scales.stride(1) == 1 && scales.size(0) == m.size(0) && scales.size(1) == m.size(1 + axis),
        "Expected ", name, " to be [", m.size(0), ", ", m.size(1 + axis), "], got ", scales.sizes());
  }
}

at::Tensor scaled_grouped_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                             const at::Tensor& scale_b, const std::optional<at::Tensor>& ends,
                             const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& scale_result,
                             std::optional<at::ScalarType> type, bool) {
  TORCH_CHECK(a.scalar_type() == at::kFloat8_e4m3fn && b.scalar_type() == at::kFloat8_e4m3fn,
              "Expected inputs of E4M3 FP8 type");
  TORCH_CHECK(!bias && !scale_result, "neither a bias nor a scale of the result is supported yet");
  TORCH_CHECK(type.value_or(at::kBFloat16) == at::kBFloat16, "Only bf16 high precision output type is supported");
  TORCH_CHECK(a.numel() > 0 && b.numel() > 0, "the kernels' behaviour without elements is not known");
  TORCH_CHECK(a.dim() == 2 && b.dim() == 3, "of groups that divide the sum only bf16 is emulated");
  check_offsets(a, b, ends);
  TORCH_CHECK(!check_strides("mat_a", a), "Expected mat1 to not be transposed");
  TORCH_CHECK(check_strides("mat_b", b), "Expected mat2 to be transposed");
  TORCH_CHECK(a.size(-1) % 16 == 0 && b.size(-1) % 16 == 0, "trailing dimensions have to be divisible by 16");
  check_scales("scale_a", scale_a, a, 0, 1);
  check_scales("scale_b", scale_b, b, 1, 1);
  const at::Tensor out = result_of(a, b, ends);
  on_stream("_scaled_grouped_mm", {a, b, scale_a, scale_b, *ends}, {out}, [](const auto& in, const auto& to) {
    multiply(in[0].to(at::kFloat) * in[2].unsqueeze(1), in[1].to(at::kFloat) * in[3].unsqueeze(1), in[4], to[0]);
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_grouped_mm", grouped_mm);
  m.impl("_scaled_grouped_mm", scaled_grouped_mm);
}

}  // namespace emulated

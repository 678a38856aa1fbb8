// SPDX-License-Identifier: Apache-2.0
// Products of FP8 numbers with scales, which CUDA alone has in full: torch._scaled_mm with a scale per tensor or per
// row and torch._scaled_mm_v2 of the same. They refuse what LibTorch and cuBLASLt refuse on an H100, and compute in
// fp32 from the numbers that the payloads stand for, rounded once.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <cstdint>
#include <cstdlib>

#include "tests/emulator/torch/backend.h"

namespace emulated {
namespace {

constexpr std::int64_t alignment = 16;

bool is_fp8(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat8_e4m3fn || x.scalar_type() == at::kFloat8_e5m2;
}

void check_address(const at::Tensor& x, const char* name) {
  TORCH_CHECK(reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % alignment == 0, "_scaled_mm: ", name,
              " does not begin at a multiple of 16 bytes: cuBLASLt would find no algorithm");
}

void check_operands(const at::Tensor& left, const at::Tensor& right) {
  static const bool has_units = std::getenv("EMULATED_WITHOUT_FP8") == nullptr;
  TORCH_CHECK(has_units, "torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9");
  TORCH_CHECK(left.dim() == 2 && right.dim() == 2, "_scaled_mm: operands must be matrices");
  TORCH_CHECK(left.size(1) == right.size(0), "_scaled_mm: mat1 and mat2 shapes cannot be multiplied (", left.sizes(),
              " and ", right.sizes(), ")");
  TORCH_CHECK(is_fp8(left) && is_fp8(right), "_scaled_mm: operands must be FP8");
  TORCH_CHECK(left.scalar_type() == at::kFloat8_e4m3fn || right.scalar_type() == at::kFloat8_e4m3fn,
              "_scaled_mm: Multiplication of two Float8_e5m2 matrices is not supported");
  TORCH_CHECK(left.size(1) % alignment == 0,
              "_scaled_mm: Expected trailing dimension of mat1 to be divisible by 16 but "
              "got mat1 shape: ",
              left.sizes());
  TORCH_CHECK(right.size(0) % alignment == 0 && right.size(1) % alignment == 0,
              "_scaled_mm: Expected both dimensions of "
              "mat2 to be divisible by 16 but got mat2 shape: ",
              right.sizes());
  TORCH_CHECK(left.numel() > 0 && right.numel() > 0, "_scaled_mm: cuBLASLt multiplies no empty matrices");
  TORCH_CHECK(left.stride(1) == 1 && left.stride(0) >= left.size(1), "_scaled_mm: mat1 must be row-major");
  TORCH_CHECK(right.stride(0) == 1 && right.stride(1) >= right.size(0), "_scaled_mm: mat2 must be column-major");
  TORCH_CHECK(left.stride(0) % alignment == 0 && right.stride(1) % alignment == 0,
              "_scaled_mm: rows of mat1 and columns of mat2 must begin at multiples of 16 bytes");
  check_address(left, "mat1");
  check_address(right, "mat2");
}

bool are_of_tensors(const at::Tensor& a, const at::Tensor& b) { return a.numel() == 1 && b.numel() == 1; }

void check_scales(const at::Tensor& left, const at::Tensor& right, const at::Tensor& a, const at::Tensor& b,
                  at::ScalarType type) {
  for (const at::Tensor& scale : {a, b}) {
    TORCH_CHECK(scale.device() == left.device(), "_scaled_mm: scales must be on the operands' device, not on ",
                scale.device());
    TORCH_CHECK(scale.scalar_type() == at::kFloat, "_scaled_mm: scales must be float32");
  }
  if (are_of_tensors(a, b)) return;
  TORCH_CHECK(a.dim() == 2 && a.size(0) == left.size(0) && a.size(1) == 1 && b.dim() == 2 && b.size(0) == 1 &&
                  b.size(1) == right.size(1) && a.is_contiguous() && b.is_contiguous(),
              "_scaled_mm: Invalid scaling configuration: scales of rows must be contiguous (", left.size(0),
              ", 1) and (1, ", right.size(1), "), not ", a.sizes(), " and ", b.sizes());
  TORCH_CHECK(type == at::kBFloat16,
              "_scaled_mm: Only bf16 high precision output types are supported for row-wise "
              "scaling");
}

void check_bias(const std::optional<at::Tensor>& bias, const at::Tensor& right, at::ScalarType type) {
  if (!bias) return;
  TORCH_CHECK(bias->numel() == right.size(1) && bias->is_contiguous(), "_scaled_mm: Bias must be size ", right.size(1));
  TORCH_CHECK(type != at::kFloat, "_scaled_mm: Bias is not supported when out_dtype is set to Float32");
  TORCH_CHECK(bias->scalar_type() == type, "_scaled_mm: Bias must be ", type, " but got ", bias->scalar_type());
  check_address(*bias, "bias");
}

at::Tensor& scaled_mm_out(const at::Tensor& left, const at::Tensor& right, const at::Tensor& scale_a,
                          const at::Tensor& scale_b, const std::optional<at::Tensor>& bias,
                          const std::optional<at::Tensor>& scale_result, std::optional<at::ScalarType> out_type,
                          bool /*use_fast_accum*/, at::Tensor& out) {
  const at::ScalarType type = out_type.value_or(left.scalar_type());
  check_operands(left, right);
  check_scales(left, right, scale_a, scale_b, type);
  check_bias(bias, right, type);
  TORCH_CHECK(!scale_result, "_scaled_mm: a scale of the result is not emulated");
  TORCH_CHECK(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf, "_scaled_mm: results of type ", type,
              " are not emulated");
  TORCH_CHECK(out.scalar_type() == type, "_scaled_mm: out is not of out_dtype");
  TORCH_CHECK(out.size(0) == left.size(0) && out.size(1) == right.size(1), "_scaled_mm: out has another size");
  TORCH_CHECK(out.is_contiguous(), "_scaled_mm: out must be contiguous");
  check_address(out, "out");
  std::vector<at::Tensor> inputs{left, right, scale_a, scale_b};
  if (bias) inputs.push_back(*bias);
  on_stream("_scaled_mm", inputs, {out}, [](const auto& in, const auto& to) {
    at::Tensor product = at::mm(in[0].to(at::kFloat), in[1].to(at::kFloat)).mul_(in[2]).mul_(in[3]);
    if (in.size() > 4) product.add_(in[4]);
    to[0].copy_(product);
  });
  return out;
}

at::Tensor new_product(const at::Tensor& left, const at::Tensor& right, std::optional<at::ScalarType> type) {
  TORCH_CHECK(left.dim() == 2 && right.dim() == 2, "_scaled_mm: operands must be matrices");
  return at::empty({left.size(0), right.size(1)}, left.options().dtype(type.value_or(left.scalar_type())));
}

at::Tensor scaled_mm(const at::Tensor& left, const at::Tensor& right, const at::Tensor& scale_a,
                     const at::Tensor& scale_b, const std::optional<at::Tensor>& bias,
                     const std::optional<at::Tensor>& scale_result, std::optional<at::ScalarType> out_type,
                     bool use_fast_accum) {
  at::Tensor out = new_product(left, right, out_type);
  return scaled_mm_out(left, right, scale_a, scale_b, bias, scale_result, out_type, use_fast_accum, out);
}

// As torch.nn.functional.ScalingType and SwizzleType number them.
constexpr std::int64_t of_tensor = 0, of_rows = 1, no_swizzle = 0;

void check_recipes(at::TensorList scale_a, at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a, at::TensorList scale_b,
                   at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b, at::IntArrayRef contraction) {
  TORCH_CHECK(contraction.empty() || (contraction.size() == 2 && contraction[0] == 1 && contraction[1] == 0),
              "_scaled_mm_v2: contraction_dim must be (1, 0) or left out");
  TORCH_CHECK(scale_a.size() == 1 && recipe_a.size() == 1 && scale_b.size() == 1 && recipe_b.size() == 1,
              "_scaled_mm_v2: one scale for each operand is emulated");
  TORCH_CHECK(recipe_a == recipe_b && (recipe_a[0] == of_tensor || recipe_a[0] == of_rows),
              "_scaled_mm_v2: TensorWise and RowWise are emulated, of both operands");
  for (const at::IntArrayRef swizzle : {swizzle_a, swizzle_b})
    TORCH_CHECK(swizzle.empty() || (swizzle.size() == 1 && swizzle[0] == no_swizzle),
                "_scaled_mm_v2: scales of tensors and rows are not swizzled");
  TORCH_CHECK(are_of_tensors(scale_a[0], scale_b[0]) || recipe_a[0] == of_rows,
              "_scaled_mm_v2: TensorWise takes scales of one number");
}

at::Tensor& scaled_mm_v2_out(const at::Tensor& left, const at::Tensor& right, at::TensorList scale_a,
                             at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a, at::TensorList scale_b,
                             at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b, const std::optional<at::Tensor>& bias,
                             std::optional<at::ScalarType> out_type, at::IntArrayRef contraction, bool use_fast_accum,
                             at::Tensor& out) {
  check_recipes(scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, contraction);
  return scaled_mm_out(left, right, scale_a[0], scale_b[0], bias, std::nullopt, out_type, use_fast_accum, out);
}

at::Tensor scaled_mm_v2(const at::Tensor& left, const at::Tensor& right, at::TensorList scale_a,
                        at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a, at::TensorList scale_b,
                        at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b, const std::optional<at::Tensor>& bias,
                        std::optional<at::ScalarType> out_type, at::IntArrayRef contraction, bool use_fast_accum) {
  at::Tensor out = new_product(left, right, out_type);
  return scaled_mm_v2_out(left, right, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_type,
                          contraction, use_fast_accum, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_scaled_mm", scaled_mm);
  m.impl("_scaled_mm.out", scaled_mm_out);
  m.impl("_scaled_mm_v2", scaled_mm_v2);
  m.impl("_scaled_mm_v2.out", scaled_mm_v2_out);
}

}  // namespace emulated

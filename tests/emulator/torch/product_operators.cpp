// SPDX-License-Identifier: Apache-2.0
// Products that LibTorch has on CUDA alone, with what its kernels demand: 16-bit operands, and a result that is written
// or added in fp32.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <c10/core/ScalarType.h>
#include <torch/library.h>

#include "tests/emulator/torch/backend.h"

namespace emulated {
namespace {

bool is_half(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

void check_product(const at::Tensor& a, const at::Tensor& b, at::ScalarType type, const at::Tensor& out) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2, "a product with out_dtype needs matrices, got ", a.dim(), "-D and ",
              b.dim(), "-D");
  TORCH_CHECK(a.size(1) == b.size(0), "shapes ", a.sizes(), " and ", b.sizes(), " cannot be multiplied");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "both matrices must have one dtype, got ", a.scalar_type(), " and ",
              b.scalar_type());
  TORCH_CHECK(type == a.scalar_type() || (type == at::kFloat && is_half(a.scalar_type())),
              "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs");
  TORCH_CHECK(type == out.scalar_type(), "out_dtype must be the same as the dtype of the provided out tensor");
  TORCH_CHECK(out.dim() == 2 && out.size(0) == a.size(0) && out.size(1) == b.size(1), "the result has shape ",
              out.sizes(), ", the product [", a.size(0), ", ", b.size(1), "]");
}

// Products in fp32, rounded once.
at::Tensor wide_product(const at::Tensor& a, const at::Tensor& b) { return at::mm(a.to(at::kFloat), b.to(at::kFloat)); }

at::Tensor& mm_dtype_out(const at::Tensor& a, const at::Tensor& b, at::ScalarType type, at::Tensor& out) {
  check_product(a, b, type, out);
  on_stream("mm.dtype", {a, b}, {out}, [](const auto& in, const auto& to) { to[0].copy_(wide_product(in[0], in[1])); });
  return out;
}

at::Tensor mm_dtype(const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
  return mm_dtype_out(a, b, type, out);
}

at::Tensor& addmm_dtype_out(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, at::ScalarType type,
                            const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  check_product(a, b, type, out);
  TORCH_CHECK(self.scalar_type() == type || self.scalar_type() == a.scalar_type(),
              "self dtype must match either out_dtype or mat1 dtype");
  on_stream("addmm.dtype", {self, a, b}, {out}, [beta, alpha](const auto& in, const auto& to) {
    at::Tensor sum = wide_product(in[1], in[2]).mul_(alpha);
    // As in cuBLAS, nothing is read where beta is 0: NaN of new memory must not spread.
    if (beta.toDouble() != 0) sum.add_(in[0].to(at::kFloat), beta);
    to[0].copy_(sum);
  });
  return out;
}

at::Tensor addmm_dtype(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, at::ScalarType type,
                       const at::Scalar& beta, const at::Scalar& alpha) {
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
  return addmm_dtype_out(self, a, b, type, beta, alpha, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("mm.dtype", mm_dtype);
  m.impl("mm.dtype_out", mm_dtype_out);
  m.impl("addmm.dtype", addmm_dtype);
  m.impl("addmm.dtype_out", addmm_dtype_out);
}

}  // namespace emulated

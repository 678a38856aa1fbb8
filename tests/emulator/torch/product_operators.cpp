// SPDX-License-Identifier: Apache-2.0
// Products of 16-bit matrices with results in fp32, which CUDA alone has. The sum is kept in fp32 and rounded once.
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include "tests/emulator/torch/backend.h"

namespace emulated {
namespace {

// LibTorch's checks on CUDA (aten/src/ATen/native/cuda/Blas.cpp).
void check_types(const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "expected mat1 and mat2 to have the same dtype, but got: ", a.scalar_type(), " != ", b.scalar_type());
  const bool is_half = a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16;
  TORCH_CHECK(type == a.scalar_type() || (type == at::kFloat && is_half),
              "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs");
}

at::Tensor& mm_dtype_out(const at::Tensor& a, const at::Tensor& b, at::ScalarType type, at::Tensor& out) {
  check_types(a, b, type);
  TORCH_CHECK(out.scalar_type() == type, "the output's dtype is ", out.scalar_type(), ", not ", type);
  on_stream("mm.dtype", {a, b}, {out},
            [](const auto& in, const auto& to) { to[0].copy_(at::mm(in[0].to(at::kFloat), in[1].to(at::kFloat))); });
  return out;
}

at::Tensor mm_dtype(const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
  return mm_dtype_out(a, b, type, out);
}

at::Tensor& addmm_dtype_out(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, at::ScalarType type,
                            const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  check_types(a, b, type);
  TORCH_CHECK(out.scalar_type() == type, "the output's dtype is ", out.scalar_type(), ", not ", type);
  on_stream("addmm.dtype", {self, a, b}, {out}, [beta, alpha](const auto& in, const auto& to) {
    at::Tensor sum = at::mm(in[1].to(at::kFloat), in[2].to(at::kFloat)).mul_(alpha);
    if (beta.toDouble() != 0) sum.add_(in[0].to(at::kFloat), beta);
    to[0].copy_(sum);
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("mm.dtype", mm_dtype);
  m.impl("mm.dtype_out", mm_dtype_out);
  m.impl("addmm.dtype_out", addmm_dtype_out);
}

}  // namespace emulated

// SPDX-License-Identifier: Apache-2.0
// CUDA's softmax of 16-bit numbers may give fp32 at once, which ATen's code for all devices asks of it and the CPU's
// kernel refuses.
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <torch/library.h>

#include "tests/emulator/torch/backend.h"

namespace emulated {
namespace {

template <bool of_logarithm>
at::Tensor& softmax_out(const at::Tensor& self, std::int64_t dimension, bool to_float, at::Tensor& out) {
  on_stream(of_logarithm ? "_log_softmax" : "_softmax", {self}, {out}, [=](const auto& in, const auto& to) {
    const at::Tensor x = to_float ? in[0].to(at::kFloat) : in[0];
    to[0].copy_(of_logarithm ? at::_log_softmax(x, dimension, false) : at::_softmax(x, dimension, false));
  });
  return out;
}

template <bool of_logarithm>
at::Tensor& softmax_backward_out(const at::Tensor& dy, const at::Tensor& y, std::int64_t dimension, at::ScalarType type,
                                 at::Tensor& out) {
  const char* name = of_logarithm ? "_log_softmax_backward_data" : "_softmax_backward_data";
  on_stream(name, {dy, y}, {out}, [=](const auto& in, const auto& to) {
    const at::ScalarType own = in[0].scalar_type() == type ? type : at::kFloat;
    to[0].copy_(of_logarithm ? at::_log_softmax_backward_data(in[0], in[1], dimension, own)
                             : at::_softmax_backward_data(in[0], in[1], dimension, own));
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_softmax.out", softmax_out<false>);
  m.impl("_log_softmax.out", softmax_out<true>);
  m.impl("_softmax_backward_data.out", softmax_backward_out<false>);
  m.impl("_log_softmax_backward_data.out", softmax_backward_out<true>);
}

}  // namespace emulated

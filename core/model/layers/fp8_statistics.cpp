// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers/fp8_statistics.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/logical_and.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace llmtrain {
namespace {

using kernels::Fp8Format;

// Bounds the float64 copies.
constexpr std::int64_t piece_elements = 16384;

double count(const at::Tensor& mask) { return static_cast<double>(mask.sum().item<std::int64_t>()); }

// All but the saturated elements; `cast` is what x became.
Fp8Representation represent(const at::Tensor& x, const at::Tensor& cast, const at::Tensor& scale) {
  const at::Tensor values = x.to(at::kDouble);
  Fp8Representation of;
  of.amax = kernels::largest_magnitude(x).item<double>();
  of.smallest_scale = of.largest_scale = scale.item<double>();
  of.elements = static_cast<double>(x.numel());
  of.underflowed = count(at::logical_and(cast.eq(0), values.ne(0)));
  of.signal = values.square().sum().item<double>();
  of.noise = values.sub(cast).square_().sum().item<double>();
  return of;
}

}  // namespace

double Fp8Representation::signal_to_noise() const { return 10 * std::log10(signal / noise); }

void add(Fp8Representation& to, const Fp8Representation& more) {
  if (more.elements == 0) return;
  to.smallest_scale = to.elements == 0 ? more.smallest_scale : std::min(to.smallest_scale, more.smallest_scale);
  to.largest_scale = std::max(to.largest_scale, more.largest_scale);
  to.amax = kernels::larger_magnitude(more.amax, to.amax);
  to.elements += more.elements;
  to.saturated += more.saturated;
  to.underflowed += more.underflowed;
  to.signal += more.signal;
  to.noise += more.noise;
}

void Fp8Statistics::add(Fp8Tensors kind, const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  const at::Tensor flat = x.reshape({-1});
  for (std::int64_t begin = 0; begin < flat.numel(); begin += piece_elements) {
    const at::Tensor piece = flat.slice(0, begin, std::min(begin + piece_elements, flat.numel()));
    Fp8Representation of = represent(piece, kernels::round_to_fp8(piece, scale, format).to(at::kDouble), scale);
    of.saturated = count(piece.to(at::kDouble).abs().mul(of.largest_scale).gt(kernels::largest_of(format)));
    llmtrain::add(kinds_[static_cast<std::size_t>(kind)], of);
  }
}

void Fp8Statistics::add_cast(Fp8Tensors kind, const at::Tensor& x, const at::Tensor& payload, const at::Tensor& scale) {
  for (std::int64_t begin = 0; begin < x.numel(); begin += piece_elements) {
    const std::int64_t end = std::min(begin + piece_elements, x.numel());
    const at::Tensor cast = payload.slice(0, begin, end);
    Fp8Representation of = represent(x.slice(0, begin, end), kernels::widen_fp8(cast, scale, at::kDouble), scale);
    of.saturated = static_cast<double>(kernels::count_saturated(cast));
    llmtrain::add(kinds_[static_cast<std::size_t>(kind)], of);
  }
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers/fp8_statistics.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace llmtrain {
namespace {

using kernels::Fp8Format;

// Bounds the float64 copies: on a processor by its cache, on a GPU by its memory.
std::int64_t piece_elements(const at::Tensor& x) { return x.is_cpu() ? 16384 : 1 << 22; }

// The columns of numbers on a GPU; the first two are kept as negative ones too, so that all of them are maxima or sums.
enum Number : std::int64_t {
  amax,
  negative_smallest_scale,
  largest_scale,
  maxima,
  saturated = maxima,
  underflowed,
  signal,
  noise,
  numbers
};

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
  const std::int64_t step = piece_elements(x);
  for (std::int64_t begin = 0; begin < flat.numel(); begin += step) {
    const at::Tensor piece = flat.slice(0, begin, std::min(begin + step, flat.numel()));
    if (!x.is_cpu()) {
      const at::Tensor values = piece.to(at::kDouble), factor = scale.to(at::kDouble);
      const at::Tensor became = kernels::widen_fp8(kernels::cast_to_fp8(piece, scale, format), scale, at::kDouble);
      add_on_device(kind, {values, became, factor, values.abs().mul_(factor).gt(kernels::largest_of(format)).sum()});
      continue;
    }
    Fp8Representation of = represent(piece, kernels::round_to_fp8(piece, scale, format).to(at::kDouble), scale);
    of.saturated = count(piece.to(at::kDouble).abs().mul(of.largest_scale).gt(kernels::largest_of(format)));
    llmtrain::add(kinds_[static_cast<std::size_t>(kind)], of);
  }
}

void Fp8Statistics::add_cast(Fp8Tensors kind, const at::Tensor& x, const at::Tensor& payload, const at::Tensor& scale) {
  const std::int64_t step = piece_elements(x);
  for (std::int64_t begin = 0; begin < x.numel(); begin += step) {
    const std::int64_t end = std::min(begin + step, x.numel());
    const at::Tensor cast = payload.slice(0, begin, end);
    if (!x.is_cpu()) {
      const at::Tensor values = x.slice(0, begin, end).to(at::kDouble);
      add_on_device(kind, {values, kernels::widen_fp8(cast, scale, at::kDouble), scale.to(at::kDouble),
                           kernels::saturated_count(cast)});
      continue;
    }
    Fp8Representation of = represent(x.slice(0, begin, end), kernels::widen_fp8(cast, scale, at::kDouble), scale);
    of.saturated = static_cast<double>(kernels::count_saturated(cast));
    llmtrain::add(kinds_[static_cast<std::size_t>(kind)], of);
  }
}

void Fp8Statistics::add_on_device(Fp8Tensors kind, const Cast& cast) {
  const auto row = static_cast<std::int64_t>(kind);
  const at::TensorOptions options = cast.x.options();
  if (!device_numbers_.defined()) {
    device_numbers_ = at::zeros({static_cast<std::int64_t>(kinds), numbers}, options);
    device_numbers_.select(1, negative_smallest_scale).fill_(-std::numeric_limits<double>::infinity());
  }
  const at::Tensor mine = device_numbers_.select(0, row);
  const at::Tensor most = at::cat({kernels::largest_magnitude(cast.x).to(at::kDouble), cast.scale.neg(), cast.scale});
  at::Tensor known = mine.narrow(0, 0, maxima);
  at::maximum_out(known, known, most);
  const at::Tensor lost = at::logical_and(cast.became.eq(0), cast.x.ne(0)).sum();
  const at::Tensor noise = cast.x.sub(cast.became).square_().sum(), signal = cast.x.square().sum();
  for (const auto& [column, more] :
       {std::pair{saturated, cast.saturated}, {underflowed, lost}, {Number::signal, signal}, {Number::noise, noise}})
    mine.narrow(0, column, 1).add_(more);
  device_elements_[static_cast<std::size_t>(kind)] += static_cast<double>(cast.x.numel());
}

const Fp8Statistics::Kinds& Fp8Statistics::of_kinds() const {
  if (!device_numbers_.defined()) return kinds_;
  const at::Tensor all = std::exchange(device_numbers_, {}).cpu();
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    const auto* number = all.const_data_ptr<double>() + static_cast<std::int64_t>(kind) * numbers;
    llmtrain::add(kinds_[kind], {number[amax], -number[negative_smallest_scale], number[largest_scale],
                                 std::exchange(device_elements_[kind], 0), number[saturated], number[underflowed],
                                 number[signal], number[noise]});
  }
  return kinds_;
}

}  // namespace llmtrain

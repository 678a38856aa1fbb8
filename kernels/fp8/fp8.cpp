// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8/fp8.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/fp8/fp8_cuda.h"
#include "kernels/vector/fp8.h"
#include "kernels/vector/level.h"
#include "kernels/vector_dispatch.h"

namespace llmtrain::kernels {
namespace {

// Elements per thread below which starting another thread costs more than it saves.
constexpr std::int64_t casts_per_thread = 16384;

// most = max(most, bits). Maxima do not depend on the order of the threads.
void raise_to(std::atomic<std::uint32_t>& most, std::uint32_t bits) {
  std::uint32_t known = most.load();
  while (known < bits && !most.compare_exchange_weak(known, bits)) {
  }
}

bool is_cast_array(const at::Tensor& x) {
  return is_vector_array(x) || (x.device().is_cpu() && x.scalar_type() == at::kHalf && x.is_contiguous());
}

// Calls `body.template operator()<Element>()` for the element type of x, which is_cast_array().
template <class Body>
decltype(auto) with_cast_element_of(const at::Tensor& x, Body body) {
  if (x.scalar_type() == at::kHalf) return body.template operator()<vector::Half>();
  return with_element_of(x, body);
}

Fp8Format format_of(const at::Tensor& payload) {
  return payload.scalar_type() == at::kFloat8_e4m3fn ? Fp8Format::e4m3 : Fp8Format::e5m2;
}

template <class Element>
vector::Fp8Kernels<Element> fp8_loops() {
  return vector::at_level([]<int level> { return vector::fp8_kernels_for<level, Element>(); });
}

template <class Element>
vector::Fp8Casts<Element> casts_of(Fp8Format format) {
  return format == Fp8Format::e4m3 ? fp8_loops<Element>().e4m3 : fp8_loops<Element>().e5m2;
}

// Calls body(row, first element, elements) for parts of the rows of x, which has n of them, in several threads.
template <class Body>
void over_rows(const at::Tensor& x, std::int64_t n, Body body) {
  if (x.numel() == 0) return;
  const std::int64_t width = x.numel() / n;
  at::parallel_for(0, x.numel(), casts_per_thread, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t row = begin / width, stop = std::min(end, (row + 1) * width);
      body(row, begin, stop - begin);
      begin = stop;
    }
  });
}

// The largest of the bits that body(scale, first element, elements) returns, as a number: fp32 [1].
template <class Body>
at::Tensor largest_over(const at::Tensor& x, const at::Tensor& scale, Body body) {
  std::atomic<std::uint32_t> most = 0;
  const auto* scales = scale.const_data_ptr<float>();
  over_rows(x, scale.numel(),
            [&](std::int64_t row, std::int64_t first, std::int64_t n) { raise_to(most, body(scales[row], first, n)); });
  return at::full({1}, std::bit_cast<float>(most.load()), at::kFloat);
}

template <class Element>
at::Tensor vector_largest(const at::Tensor& x, std::int64_t rows) {
  std::vector<std::atomic<std::uint32_t>> bits(static_cast<std::size_t>(rows));
  const auto kernel = fp8_loops<Element>().largest;
  over_rows(x, rows, [&](std::int64_t row, std::int64_t first, std::int64_t n) {
    raise_to(bits[static_cast<std::size_t>(row)], kernel(elements<Element>(x) + first, n));
  });
  at::Tensor largest = at::empty({rows}, at::kFloat);
  std::ranges::transform(bits, largest.mutable_data_ptr<float>(),
                         [](const auto& each) { return std::bit_cast<float>(each.load()); });
  return largest;
}

at::Tensor vector_cast(const at::Tensor& x, const at::Tensor& scale, Fp8Format format, const at::Tensor& payload) {
  return with_cast_element_of(x, [&]<class Element> {
    const auto* values = elements<Element>(x);
    auto* bytes = static_cast<std::uint8_t*>(payload.data_ptr());
    return largest_over(x, scale,
                        [=, kernel = casts_of<Element>(format).cast](float factor, std::int64_t first, std::int64_t n) {
                          return kernel(values + first, factor, bytes + first, n);
                        });
  });
}

// `rounded` may be x.
at::Tensor vector_round(const at::Tensor& x, const at::Tensor& scale, Fp8Format format, const at::Tensor& rounded) {
  return with_cast_element_of(x, [&]<class Element> {
    const auto* values = elements<Element>(x);
    auto* results = mutable_elements<Element>(rounded);
    return largest_over(
        x, scale, [=, kernel = casts_of<Element>(format).round](float factor, std::int64_t first, std::int64_t n) {
          return kernel(values + first, factor, 1 / factor, results + first, n);
        });
  });
}

// On a GPU the product with a power of two stays in bf16, which has fp32's exponents: it is exact wherever FP8 has
// anything left of it, and moves half the bytes. fp16 does not have the scales.
at::Tensor within_range(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  const bool stays = !x.is_cpu() && x.scalar_type() == at::kBFloat16;
  // LibTorch's own cast makes NaN of what is too large for E4M3 and infinity of what is too large for E5M2.
  return x.mul(stays ? scale.to(at::kBFloat16) : scale).clamp_(-largest_of(format), largest_of(format));
}

at::Tensor as_payload(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  return within_range(x, scale, format).to(fp8_type(format));
}

// The largest magnitudes over some axes in one pass, which keeps a NaN.
at::Tensor device_largest(const at::Tensor& x, at::OptionalIntArrayRef axes, bool keeps_axes) {
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::linalg_vector_norm(x, std::numeric_limits<double>::infinity(), axes, keeps_axes, type).to(at::kFloat);
}

}  // namespace

at::Tensor largest_magnitude(const at::Tensor& x) {
  if (is_cast_array(x)) return with_cast_element_of(x, [&]<class Element> { return vector_largest<Element>(x, 1); });
  if (has_cuda_fp8(x)) return cuda_largest(x, 1);
  if (x.numel() == 0) return at::zeros({1}, x.options().dtype(at::kFloat));
  if (!x.is_cpu()) return device_largest(x, std::nullopt, false).view({1});
  return at::amax(x.abs()).to(at::kFloat).view({1});
}

at::Tensor largest_row_magnitudes(const at::Tensor& x) {
  const std::int64_t rows = x.size(0);
  if (has_cuda_fp8(x)) return cuda_largest(x, rows).view({rows, 1});
  if (!x.is_cpu()) return device_largest(x, 1, true);
  if (!is_cast_array(x)) return at::amax(x.abs(), 1, true).to(at::kFloat);
  return with_cast_element_of(x, [&]<class Element> { return vector_largest<Element>(x, rows); }).view({rows, 1});
}

MeasuredFp8 cast_and_measure(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  if (!is_cast_array(x) && !has_cuda_fp8(x)) return {as_payload(x, scale, format), largest_magnitude(x)};
  at::Tensor payload = at::empty(x.sizes(), x.options().dtype(fp8_type(format)));
  at::Tensor largest = (x.is_cpu() ? vector_cast : cuda_measured_cast)(x, scale, format, payload);
  return {std::move(payload), std::move(largest)};
}

ShownFp8 cast_and_show(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  if (has_cuda_fp8(x)) return cuda_shown_cast(x, scale, format);
  if (!x.is_cpu()) {
    const at::Tensor largest = largest_magnitude(x), shown = shown_scale(scale, largest);
    return {cast_to_fp8(x, shown, format), shown, largest};
  }
  auto [values, largest] = cast_and_measure(x, scale, format);
  if (std::isfinite(*largest.const_data_ptr<float>())) return {std::move(values), scale, std::move(largest)};
  const at::Tensor shown = at::full({1}, std::numeric_limits<float>::quiet_NaN(), at::kFloat);
  return {cast_to_fp8(x, shown, format), shown, std::move(largest)};
}

ShownFp8 cast_and_show_both_ways(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  return has_cuda_fp8(x) ? cuda_shown_cast_both_ways(x, scale, format) : cast_and_show(x, scale, format);
}

TurnedFp8 cast_to_fp8_both_ways(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  if (has_cuda_fp8(x)) return cuda_cast_both_ways(x, scale, format);
  return {cast_to_fp8(x, scale, format), {}};
}

at::Tensor cast_to_fp8(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  if (has_cuda_fp8(x)) {
    at::Tensor payload = at::empty(x.sizes(), x.options().dtype(fp8_type(format)));
    cuda_cast(x, scale, format, payload);
    return payload;
  }
  if (!is_cast_array(x)) return as_payload(x, scale, format);
  return cast_and_measure(x, scale, format).values;
}

void cast_to_fp8_into(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& payload) {
  const Fp8Format format = format_of(payload);
  if (is_cast_array(x) && payload.is_contiguous()) {
    vector_cast(x, scale, format, payload);
  } else if (has_cuda_fp8(x) && payload.is_contiguous()) {
    cuda_cast(x, scale, format, payload);
  } else {
    payload.copy_(within_range(x, scale, format));
  }
}

at::Tensor cast_to_fp8_transposed(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  if (has_cuda_fp8(x)) return cuda_cast_transposed(x, scale, format);
  at::Tensor payload = at::empty({x.size(1), x.size(0)}, x.options().dtype(fp8_type(format)));
  // The turn costs no pass of its own.
  payload.copy_(within_range(x, scale, format).t());
  return payload;
}

at::Tensor widen_fp8(const at::Tensor& payload, const at::Tensor& scale, at::ScalarType type) {
  at::Tensor x = at::empty(payload.sizes(), payload.options().dtype(type));
  widen_fp8_into(payload, scale, x);
  return x;
}

std::int64_t count_saturated(const at::Tensor& payload) {
  const Fp8Format format = format_of(payload);
  if (!payload.device().is_cpu() || !payload.is_contiguous())
    return payload.to(at::kFloat).abs().eq(largest_of(format)).sum().item<std::int64_t>();
  std::atomic<std::int64_t> all = 0;
  const auto* bytes = static_cast<const std::uint8_t*>(payload.const_data_ptr());
  const auto kernel = casts_of<float>(format).count_largest;
  at::parallel_for(0, payload.numel(), casts_per_thread,
                   [&](std::int64_t begin, std::int64_t end) { all += kernel(bytes + begin, end - begin); });
  return all;
}

at::Tensor saturated_count(const at::Tensor& payload) {
  if (payload.is_cpu()) return at::full({1}, static_cast<float>(count_saturated(payload)), at::kFloat);
  if (has_cuda_codes(payload)) return cuda_saturated_count(payload, format_of(payload));
  const std::int64_t largest = format_of(payload) == Fp8Format::e4m3 ? 0x7e : 0x7b;
  return payload.view(at::kByte).bitwise_and(0x7f).eq_(largest).sum(at::kLong).to(at::kFloat).view({1});
}

void widen_fp8_into(const at::Tensor& payload, const at::Tensor& scale, const at::Tensor& x) {
  if (has_cuda_fp8(x) && payload.is_contiguous()) return cuda_widen(payload, scale, format_of(payload), x);
  // The scale is a power of two: its reciprocal and the products with it are exact.
  if (!x.is_cpu()) {
    x.copy_(payload).div_(scale);
    return;
  }
  if (!is_cast_array(x) || !payload.is_contiguous()) {
    x.copy_(payload.to(at::kFloat).div(scale));
    return;
  }
  const Fp8Format format = format_of(payload);
  with_cast_element_of(x, [&]<class Element> {
    const auto* bytes = static_cast<const std::uint8_t*>(payload.const_data_ptr());
    const auto* scales = scale.const_data_ptr<float>();
    auto* values = mutable_elements<Element>(x);
    const auto kernel = casts_of<Element>(format).widen;
    over_rows(x, scale.numel(), [=](std::int64_t row, std::int64_t first, std::int64_t n) {
      kernel(bytes + first, 1 / scales[row], values + first, n);
    });
  });
}

at::Tensor round_and_measure_(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  if (has_cuda_fp8(x)) return cuda_measured_round(x, scale, format, x);
  if (is_cast_array(x)) return vector_round(x, scale, format, x);
  at::Tensor largest = largest_magnitude(x);
  x.copy_(widen_fp8(cast_to_fp8(x, scale, format), scale, x.scalar_type()));
  return largest;
}

MeasuredFp8 round_and_measure(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  if (!is_cast_array(x) && !has_cuda_fp8(x)) {
    at::Tensor rounded = x.clone(), largest = round_and_measure_(rounded, scale, format);
    return {std::move(rounded), std::move(largest)};
  }
  at::Tensor rounded = at::empty_like(x);
  at::Tensor largest = (x.is_cpu() ? vector_round : cuda_measured_round)(x, scale, format, rounded);
  return {std::move(rounded), std::move(largest)};
}

void round_to_fp8_(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  if (has_cuda_fp8(x)) {
    cuda_round(x, scale, format, x);
  } else if (is_cast_array(x)) {
    vector_round(x, scale, format, x);
  } else {
    x.copy_(widen_fp8(cast_to_fp8(x, scale, format), scale, x.scalar_type()));
  }
}

at::Tensor round_to_fp8(const at::Tensor& x, const at::Tensor& scale, Fp8Format format) {
  if (has_cuda_fp8(x)) {
    at::Tensor rounded = at::empty_like(x);
    cuda_round(x, scale, format, rounded);
    return rounded;
  }
  if (!is_cast_array(x)) return widen_fp8(cast_to_fp8(x, scale, format), scale, x.scalar_type());
  return round_and_measure(x, scale, format).values;
}

}  // namespace llmtrain::kernels

// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "kernels/cuda/device/fp8_span.h"
#include "kernels/cuda/device/launch.h"

namespace llmtrain::kernels {
namespace {

constexpr int threads = fp8_threads;

struct Scale {
  const float* largest;
  float* scales;
  std::int64_t count, top;
};

template <class T>
struct Largest {
  const T* x;
  unsigned* found;  // [rows, parts]
  std::int64_t rows, columns, parts;
  Flag is_packed;
};

struct Join {
  const unsigned* partials;  // [rows, parts]
  float* largest;
  std::int64_t parts;
};

struct Count {
  const std::uint8_t* payload;
  unsigned* partials;
  std::int64_t elements;
  std::int64_t code;  // of the largest number
};

struct Sum {
  const unsigned* partials;
  float* count;
  std::int64_t blocks;
};

// A block per part of a row. Parts begin at multiples of a span.
template <class T, int block>
__global__ void __launch_bounds__(block) fp8_largest_kernel(Largest<T> p) {
  const std::int64_t row = blockIdx.x / p.parts, spans = (p.columns + span - 1) / span;
  const std::int64_t part = blockIdx.x % p.parts, end = spans * (part + 1) / p.parts;
  unsigned most = 0;
  for (std::int64_t i = spans * part / p.parts + threadIdx.x; i < end; i += block) {
    Span<T> x;
    x.load(p.x + row * p.columns + i * span, static_cast<int>(min(p.columns - i * span, std::int64_t{span})),
           p.is_packed);
#pragma unroll
    for (int k = 0; k < span; ++k) most = max(most, magnitude_bits(widened(x[k])));
  }
  most = block_largest<block>(most);
  if (threadIdx.x == 0) p.found[blockIdx.x] = most;
}

__global__ void __launch_bounds__(threads) fp8_join_kernel(Join p) {
  const unsigned most = joined(p.partials + std::int64_t{blockIdx.x} * p.parts, p.parts);
  if (threadIdx.x == 0) p.largest[blockIdx.x] = __uint_as_float(most);
}

// Adds to the partial sums of a block, whose threads must all call it.
__device__ __forceinline__ unsigned block_total(unsigned value) {
  value = __reduce_add_sync(0xffffffffU, value);
  SHARED_ARRAY(unsigned, sums, threads / 32);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (int warp = 0; warp < threads / 32; ++warp) value += sums[warp];
  return value;
}

__global__ void __launch_bounds__(threads) fp8_count_kernel(Count p) {
  const bool is_packed = reinterpret_cast<std::uintptr_t>(p.payload) % 16 == 0;
  unsigned all = 0;
  over_spans(1, p.elements, [&](std::int64_t, std::int64_t first, int count) {
    Span<std::uint8_t> codes;
    codes.load(p.payload + first, count, is_packed);
#pragma unroll
    for (int i = 0; i < span; ++i) all += (codes[i] & 0x7f) == p.code ? 1 : 0;
  });
  all = block_total(all);
  if (threadIdx.x == 0) p.partials[blockIdx.x] = all;
}

__global__ void __launch_bounds__(threads) fp8_sum_kernel(Sum p) {
  unsigned all = 0;
  for (std::int64_t i = threadIdx.x; i < p.blocks; i += threads) all += p.partials[i];
  all = block_total(all);
  if (threadIdx.x == 0) *p.count = static_cast<float>(all);
}

// The power of two that places a magnitude just below the format's largest number: of m · 2ᵉ, 1 ≤ m < 2, with the
// exponent top − e, or one less where m is above 1.75.
__global__ void __launch_bounds__(threads) fp8_scale_kernel(Scale p) {
  constexpr unsigned infinity = 0x7f800000, beyond = 0x1fffff;  // carries mantissas above 1.75 into the exponent
  constexpr int bias = 127, mantissa_bits = 23;
  const std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= p.count) return;
  const unsigned bits = __float_as_uint(p.largest[i]);
  const int exponent = static_cast<int>(p.top) - (static_cast<int>((bits + beyond) >> mantissa_bits) - bias);
  const int bounded = min(max(exponent, -largest_scale_exponent), largest_scale_exponent);
  const float scale = __uint_as_float(static_cast<unsigned>(bounded + bias) << mantissa_bits);
  p.scales[i] = bits >= infinity ? __uint_as_float(0x7fc00000) : bits == 0 ? 1.0F : scale;
}

template <class T, int block>
void start_parts(const Largest<T>& p, void* stream) {
  const std::int64_t blocks = p.rows * p.parts;
  launch(stream, "fp8_largest", fp8_largest_kernel<T, block>,
         {static_cast<unsigned>(blocks), static_cast<unsigned>(block)}, p,
         {reads(p.x, size_of(p.rows * p.columns)), writes(p.found, size_of(blocks))});
}

template <class T>
void start_largest(const Fp8LargestArguments& a, void* stream) {
  constexpr int few = 64;  // suffice for what they load at four times
  const std::int64_t parts = fp8_row_parts(a.rows, a.columns);
  // Magnitudes are the bits of the numbers that they are.
  auto* const found = parts == 1 ? reinterpret_cast<unsigned*>(a.largest) : a.partials;
  const Largest<T> p{static_cast<const T*>(a.x), found, a.rows, a.columns, parts, are_packed(a.rows, a.columns, a.x)};
  (a.columns <= 4 * few * span ? start_parts<T, few> : start_parts<T, threads>)(p, stream);
  if (parts > 1) join_fp8(a.partials, a.rows, parts, a.largest, stream);
}

}  // namespace

void join_fp8(const unsigned* partials, std::int64_t rows, std::int64_t parts, float* largest, void* stream) {
  launch(stream, "fp8_join", fp8_join_kernel, {static_cast<unsigned>(rows), static_cast<unsigned>(threads)},
         Join{partials, largest, parts}, {reads(partials, size_of(rows * parts)), writes(largest, size_of(rows))});
}

void largest_fp8(const Fp8LargestArguments& a, void* stream) {
  if (a.rows > 0) with_type_of(a.element, [&]<class T> { start_largest<T>(a, stream); });
}

void scale_fp8(const Fp8ScaleArguments& a, void* stream) {
  if (a.count == 0) return;
  launch(stream, "fp8_scale", fp8_scale_kernel,
         {static_cast<unsigned>((a.count + threads - 1) / threads), static_cast<unsigned>(threads)},
         Scale{a.largest, a.scales, a.count, top_exponent(a.format)},
         {reads(a.largest, size_of(a.count)), writes(a.scales, size_of(a.count))});
}

void count_saturated_fp8(const Fp8CountArguments& a, void* stream) {
  const unsigned blocks = blocks_of(1, a.elements), code = a.format == Fp8Format::e4m3 ? 0x7e : 0x7b;
  const auto* payload = static_cast<const std::uint8_t*>(a.payload);
  if (blocks > 0)
    launch(stream, "fp8_count", fp8_count_kernel, {blocks, static_cast<unsigned>(threads)},
           Count{payload, a.partials, a.elements, code},
           {reads(payload, size_of(a.elements)), writes(a.partials, blocks)});
  launch(stream, "fp8_sum", fp8_sum_kernel, {1, static_cast<unsigned>(threads)}, Sum{a.partials, a.count, blocks},
         {reads(a.partials, blocks), writes(a.count, 1)});
}

}  // namespace llmtrain::kernels

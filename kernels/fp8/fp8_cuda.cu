// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/fp8_span.h"
#include "kernels/cuda/device/fp8_stored.h"
#include "kernels/cuda/device/launch.h"

namespace llmtrain::kernels {
namespace {

constexpr int threads = fp8_threads;

template <class T>
struct Cast {
  const T* x;
  const float* scales;
  void* result;
  unsigned* partials;  // [blocks], or null
  std::int64_t rows, columns;
  Flag is_packed;
  Fp8Stored stored;
};

template <class T>
struct Widen {
  const std::uint8_t* payload;
  const float* scales;
  T* x;
  std::int64_t rows, columns;
  Flag is_packed;
};

struct Settle {
  const unsigned* partials;
  const float* scale;
  float* largest;
  float* shown_scale;
  Fp8Codes codes;
  std::int64_t blocks;
};

__device__ __forceinline__ void note_largest(unsigned* partials, unsigned bits) {
  if (partials == nullptr) return;
  bits = block_largest<threads>(bits);
  if (threadIdx.x == 0) partials[blockIdx.x] = bits;
}

template <class T, Fp8Format format, bool is_stored>
__global__ void __launch_bounds__(threads) fp8_cast_kernel(Cast<T> p) {
  unsigned most = 0;
  over_spans(p.rows, p.columns, [&](std::int64_t row, std::int64_t first, int count) {
    Span<T> x;
    x.load(p.x + first, count, p.is_packed);
    const float scale = p.scales[row], unit = unit_at<is_stored>(p.stored, first);
    Span<std::uint8_t> codes;
#pragma unroll
    for (int i = 0; i < span; i += 2) {
      const float a = value_of<is_stored>(x[i], unit), b = value_of<is_stored>(x[i + 1], unit);
      most = max(most, max(magnitude_bits(a), magnitude_bits(b)));
      const Fp8Pair pair = fp8_pair<format>(a * scale, b * scale);
      codes[i] = static_cast<std::uint8_t>(pair);
      codes[i + 1] = static_cast<std::uint8_t>(pair >> 8);
    }
    codes.store(static_cast<std::uint8_t*>(p.result) + first, count, p.is_packed);
  });
  note_largest(p.partials, most);
}

// The result may be x: no element is another's.
template <class T, Fp8Format format>
__global__ void __launch_bounds__(threads) fp8_round_kernel(Cast<T> p) {
  constexpr int size = pack_size<T>;
  unsigned most = 0;
  over_spans<size>(p.rows, p.columns, [&](std::int64_t row, std::int64_t first, int count) {
    Span<T, size> x;
    x.load(p.x + first, count, p.is_packed);
    const float scale = p.scales[row], inverse = 1 / scale;
#pragma unroll
    for (int i = 0; i < size; i += 2) {
      const float a = widened(x[i]), b = widened(x[i + 1]);
      most = max(most, max(magnitude_bits(a), magnitude_bits(b)));
      const float2 rounded = widened_pair<format>(fp8_pair<format>(a * scale, b * scale));
      x[i] = narrowed<T>(rounded.x * inverse);
      x[i + 1] = narrowed<T>(rounded.y * inverse);
    }
    x.store(static_cast<T*>(p.result) + first, count, p.is_packed);
  });
  note_largest(p.partials, most);
}

template <class T, Fp8Format format>
__global__ void __launch_bounds__(threads) fp8_widen_kernel(Widen<T> p) {
  constexpr int size = pack_size<T>;
  over_spans<size>(p.rows, p.columns, [&](std::int64_t row, std::int64_t first, int count) {
    Span<std::uint8_t, size> codes;
    codes.load(p.payload + first, count, p.is_packed);
    const float inverse = 1 / p.scales[row];
    Span<T, size> x;
#pragma unroll
    for (int i = 0; i < size; i += 2) {
      const float2 pair = widened_pair<format>(static_cast<Fp8Pair>(codes[i] | codes[i + 1] << 8));
      x[i] = narrowed<T>(pair.x * inverse);
      x[i + 1] = narrowed<T>(pair.y * inverse);
    }
    x.store(p.x + first, count, p.is_packed);
  });
}

__global__ void __launch_bounds__(threads) fp8_settle_kernel(Settle p) {
  constexpr unsigned infinity = 0x7f800000;
  constexpr std::uint8_t not_a_number = 0x7f;  // in both formats
  const unsigned most = joined(p.partials, p.blocks);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *p.largest = __uint_as_float(most);
    if (p.shown_scale != nullptr) *p.shown_scale = most < infinity ? *p.scale : __uint_as_float(0x7fc00000);
  }
  if (p.shown_scale == nullptr || most < infinity) return;
  const std::int64_t first = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = first; i < p.codes.count; i += step) p.codes.codes[i] = not_a_number;
  if (p.codes.turned == nullptr) return;
  for (std::int64_t i = first; i < p.codes.count; i += step)
    p.codes.turned[i / p.codes.rows * p.codes.stride + i % p.codes.rows] = not_a_number;
}

template <class T>
Cast<T> cast_of(const Fp8CastArguments& a) {
  return {static_cast<const T*>(a.x),
          a.scales,
          a.result,
          a.measure.partials,
          a.rows,
          a.columns,
          are_packed(a.rows, a.columns, a.x, a.result),
          a.stored};
}

template <class T, Fp8Format format, bool is_stored = false>
void start_cast(const Fp8CastArguments& a, void* stream) {
  const unsigned blocks = blocks_of(a.rows, a.columns);
  auto* const codes = static_cast<std::uint8_t*>(a.result);
  const std::size_t count = size_of(a.rows * a.columns);
  if (blocks > 0)
    launch(stream, "fp8_cast", fp8_cast_kernel<T, format, is_stored>, {blocks, static_cast<unsigned>(threads)},
           cast_of<T>(a),
           {reads(static_cast<const T*>(a.x), count), reads(a.scales, size_of(a.rows)), writes(codes, count),
            writes(a.measure.partials, blocks), reads(a.stored.scales, size_of(a.stored.parts))});
  settle_fp8(a.measure, a.scales, blocks, {codes, a.rows * a.columns}, stream);
}

template <class T, Fp8Format format>
void start_round(const Fp8CastArguments& a, void* stream) {
  const unsigned blocks = blocks_of(a.rows, a.columns);
  const std::size_t count = size_of(a.rows * a.columns);
  if (blocks > 0)
    launch(stream, "fp8_round", fp8_round_kernel<T, format>, {blocks, static_cast<unsigned>(threads)}, cast_of<T>(a),
           {reads(static_cast<const T*>(a.x), count), reads(a.scales, size_of(a.rows)),
            writes(static_cast<T*>(a.result), count), writes(a.measure.partials, blocks)});
  settle_fp8(a.measure, a.scales, blocks, {}, stream);
}

template <class T, Fp8Format format>
void start_widen(const Fp8WidenArguments& a, void* stream) {
  const unsigned blocks = blocks_of(a.rows, a.columns);
  if (blocks == 0) return;
  const Widen<T> p{static_cast<const std::uint8_t*>(a.payload),  a.scales, static_cast<T*>(a.x), a.rows, a.columns,
                   are_packed(a.rows, a.columns, a.payload, a.x)};
  const std::size_t count = size_of(a.rows * a.columns);
  launch(stream, "fp8_widen", fp8_widen_kernel<T, format>, {blocks, static_cast<unsigned>(threads)}, p,
         {reads(p.payload, count), reads(p.scales, size_of(a.rows)), writes(p.x, count)});
}

void cast(const Fp8CastArguments& a, void* stream) {
  if (a.stored.scales != nullptr) return start_cast<__half, Fp8Format::e4m3, true>(a, stream);
  with_type_of(a.element, [&]<class T> {
    (a.format == Fp8Format::e4m3 ? start_cast<T, Fp8Format::e4m3> : start_cast<T, Fp8Format::e5m2>)(a, stream);
  });
}

void round(const Fp8CastArguments& a, void* stream) {
  with_type_of(a.element, [&]<class T> {
    (a.format == Fp8Format::e4m3 ? start_round<T, Fp8Format::e4m3> : start_round<T, Fp8Format::e5m2>)(a, stream);
  });
}

void widen(const Fp8WidenArguments& a, void* stream) {
  with_type_of(a.element, [&]<class T> {
    (a.format == Fp8Format::e4m3 ? start_widen<T, Fp8Format::e4m3> : start_widen<T, Fp8Format::e5m2>)(a, stream);
  });
}

}  // namespace

void settle_fp8(const Fp8Measure& measure, const float* scale, unsigned blocks, const Fp8Codes& codes, void* stream) {
  constexpr std::int64_t bytes_of_block = 1 << 16;
  constexpr std::int64_t most_blocks = 256;
  if (measure.largest == nullptr) return;
  const bool shows = measure.shown_scale != nullptr;
  const Fp8Codes shown = shows ? codes : Fp8Codes();
  const std::int64_t grid = std::min(shown.count / bytes_of_block + 1, most_blocks);
  // They are written where something is not finite alone.
  launch(stream, "fp8_settle", fp8_settle_kernel, {static_cast<unsigned>(grid), static_cast<unsigned>(threads)},
         Settle{measure.partials, scale, measure.largest, measure.shown_scale, shown, blocks},
         {reads(measure.partials, blocks), reads(shows ? scale : nullptr, 1), writes(measure.largest, 1),
          writes(measure.shown_scale, 1), writes(shown.codes, size_of(shown.count)),
          writes(shown.turned, size_of(shown.columns * shown.stride))});
}

const Fp8Kernels cuda_fp8_kernels{cast,
                                  round,
                                  widen,
                                  largest_fp8,
                                  turn_fp8,
                                  count_saturated_fp8,
                                  scale_fp8,
                                  largest_of_fp8_parts,
                                  cast_fp8_parts,
                                  widen_fp8_parts,
                                  count_saturated_fp8_parts,
                                  squares_of_fp8_parts};

}  // namespace llmtrain::kernels

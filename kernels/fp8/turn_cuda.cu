// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/fp8_elements.h"
#include "kernels/cuda/device/fp8_stored.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/fp8/fp8_kernels.h"

namespace llmtrain::kernels {
namespace {

// A block turns a tile through shared memory. A thread reads 16 bytes of each of 4 rows, so that 8 threads read 128
// bytes side by side; a warp has 16 rows, which are 16 bytes of each turned row, and the block 128.
constexpr int threads = 256, tile_rows = 128, packs_of_row = tile_rows / 16, thread_rows = 4;
constexpr int warp_rows = 32 / packs_of_row * thread_rows;
static_assert(thread_rows == fp8_stored_rows);
static_assert(threads / 32 * warp_rows == tile_rows);

// std::uint8_t as T stands for codes.
template <class T>
constexpr int tile_columns = packs_of_row* pack_size<T>;

template <class T>
struct Turn {
  const T* x;
  const float* scale;
  std::uint8_t* turned;
  std::int64_t rows, columns, stride;
  std::int64_t tiles_across;
  Flag reads_packs, writes_packs;
  std::uint8_t* codes;  // null: they are kept the other way round alone
  unsigned* partials;   // [tiles], or null
  Fp8Stored stored;
};

// What is done with x: its codes are kept the other way round alone, or as they lie, too; or it is stored.
enum class Way { turned, both, stored };

using Words = Pack<unsigned, 4>;

// The codes of one pack, four in a word.
template <class T, Fp8Format format, bool is_stored>
__device__ __forceinline__ void codes_of(const Pack<T, pack_size<T>>& values, float scale, float unit,
                                         unsigned (&words)[pack_size<T> / 4]) {
#pragma unroll
  for (int w = 0; w < pack_size<T> / 4; ++w) {
    const T* of = values.of + 4 * w;
    if constexpr (sizeof(T) == 1) {
      words[w] = of[0] | of[1] << 8U | of[2] << 16U | static_cast<unsigned>(of[3]) << 24U;
    } else {
      const auto scaled = [&](int i) { return value_of<is_stored>(of[i], unit) * scale; };
      const unsigned low = fp8_pair<format>(scaled(0), scaled(1));
      words[w] = low | static_cast<unsigned>(fp8_pair<format>(scaled(2), scaled(3))) << 16U;
    }
  }
}

// Four rows of four bytes become four columns.
__device__ __forceinline__ void turn_words(const unsigned (&rows)[4], unsigned (&columns)[4]) {
  const unsigned upper_low = __byte_perm(rows[0], rows[1], 0x5140), lower_low = __byte_perm(rows[2], rows[3], 0x5140);
  const unsigned upper_high = __byte_perm(rows[0], rows[1], 0x7362), lower_high = __byte_perm(rows[2], rows[3], 0x7362);
  columns[0] = __byte_perm(upper_low, lower_low, 0x5410);
  columns[1] = __byte_perm(upper_low, lower_low, 0x7632);
  columns[2] = __byte_perm(upper_high, lower_high, 0x5410);
  columns[3] = __byte_perm(upper_high, lower_high, 0x7632);
}

// Where the tile keeps the pack of 16 rows of a column: at another place of the row for each thread that writes it, so
// that a warp's 32 words lie in 32 banks, as do the packs that 8 threads read.
template <class T>
__device__ __forceinline__ int place_of(int column, int pack) {
  return column * packs_of_row + (pack ^ column / pack_size<T> % packs_of_row);
}

// A pack of each of this thread's rows, from (row, column) on; zeros beyond the matrix.
template <class T>
__device__ __forceinline__ void load_packs(const Turn<T>& p, std::int64_t row, std::int64_t column,
                                           Pack<T, pack_size<T>> (&values)[thread_rows]) {
  constexpr int size = pack_size<T>;
  // One branch, so that all of them are under way at once.
  if (p.reads_packs && row + thread_rows <= p.rows && column + size <= p.columns) {
#pragma unroll
    for (int i = 0; i < thread_rows; ++i)
      values[i] = *reinterpret_cast<const Pack<T, size>*>(p.x + (row + i) * p.columns + column);
  } else {
#pragma unroll
    for (int i = 0; i < thread_rows; ++i)
#pragma unroll
      for (int k = 0; k < size; ++k)
        values[i].of[k] = row + i < p.rows && column + k < p.columns ? p.x[(row + i) * p.columns + column + k] : T{};
  }
}

// The codes of this thread's rows as they lie.
template <class T>
__device__ __forceinline__ void store_codes(const Turn<T>& p, std::int64_t row, std::int64_t column,
                                            const unsigned (&codes)[thread_rows][pack_size<T> / 4]) {
  constexpr int size = pack_size<T>;
#pragma unroll
  for (int i = 0; i < thread_rows; ++i) {
    if (row + i >= p.rows) return;
    std::uint8_t* const to = p.codes + (row + i) * p.columns + column;
    if (p.reads_packs && column + size <= p.columns) {
      Pack<unsigned, size / 4> words;
#pragma unroll
      for (int w = 0; w < size / 4; ++w) words.of[w] = codes[i][w];
      *reinterpret_cast<Pack<unsigned, size / 4>*>(to) = words;
    } else {
#pragma unroll
      for (int k = 0; k < size; ++k)
        if (column + k < p.columns) to[k] = static_cast<std::uint8_t>(codes[i][k / 4] >> k % 4 * 8);
    }
  }
}

// The largest magnitude of this thread's values, as bits.
template <class T>
__device__ __forceinline__ unsigned largest_of_packs(const Pack<T, pack_size<T>> (&values)[thread_rows]) {
  unsigned most = 0;
#pragma unroll
  for (int i = 0; i < thread_rows; ++i)
#pragma unroll
    for (int k = 0; k < pack_size<T>; ++k) most = max(most, magnitude_bits(widened(values[i].of[k])));
  return most;
}

// This thread's share of the tile from (row, column) on; returns its largest magnitude where that is noted.
template <class T, Fp8Format format, Way way>
__device__ __forceinline__ unsigned fill_tile(const Turn<T>& p, std::int64_t row, std::int64_t column, Words* tile) {
  constexpr int size = pack_size<T>;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int first = lane % packs_of_row * size, word = lane / packs_of_row;
  Pack<T, size> values[thread_rows];
  const std::int64_t own_row = row + warp * warp_rows + word * thread_rows;
  load_packs(p, own_row, column + first, values);
  float scale = 1;
  if constexpr (sizeof(T) > 1) scale = *p.scale;
  // A part's rows, or rows of zeros behind the last.
  const float unit = unit_at<way == Way::stored>(p.stored, own_row * p.columns);
  unsigned codes[thread_rows][size / 4];
#pragma unroll
  for (int i = 0; i < thread_rows; ++i) codes_of<T, format, way == Way::stored>(values[i], scale, unit, codes[i]);
  if constexpr (way == Way::both) store_codes(p, own_row, column + first, codes);
#pragma unroll
  for (int w = 0; w < size / 4; ++w) {
    const unsigned of_rows[4] = {codes[0][w], codes[1][w], codes[2][w], codes[3][w]};
    unsigned of_columns[4];
    turn_words(of_rows, of_columns);
#pragma unroll
    for (int k = 0; k < 4; ++k) tile[place_of<T>(first + 4 * w + k, warp)].of[word] = of_columns[k];
  }
  if constexpr (way == Way::both) return p.partials != nullptr ? largest_of_packs<T>(values) : 0;
  return 0;
}

template <class T, Fp8Format format, Way way>
__global__ void __launch_bounds__(threads) fp8_turn_kernel(Turn<T> p) {
  constexpr int packs = tile_columns<T> * packs_of_row;
  SHARED_ARRAY(Words, tile, packs);
  const std::int64_t row = blockIdx.x / p.tiles_across * tile_rows;
  const std::int64_t column = blockIdx.x % p.tiles_across * tile_columns<T>;
  unsigned most = fill_tile<T, format, way>(p, row, column, tile);
  __syncthreads();
  if constexpr (way == Way::both) {
    if (p.partials != nullptr) {
      most = block_largest<threads>(most);
      if (threadIdx.x == 0) p.partials[blockIdx.x] = most;
    }
  }
  for (int i = static_cast<int>(threadIdx.x); i < packs; i += threads) {
    const int of = i / packs_of_row, pack = i % packs_of_row;
    const std::int64_t place = row + pack * 16;
    if (column + of >= p.columns || place >= p.stride) continue;
    std::uint8_t* const turned = p.turned + (column + of) * p.stride + place;
    const Words words = tile[place_of<T>(of, pack)];
    if (p.writes_packs) {
      *reinterpret_cast<Words*>(turned) = words;
    } else {
#pragma unroll
      for (int k = 0; k < 16; ++k)
        if (place + k < p.stride) turned[k] = static_cast<std::uint8_t>(words.of[k / 4] >> k % 4 * 8);
    }
  }
}

template <class T, Fp8Format format, Way way>
void start(const Fp8TurnArguments& a, void* stream) {
  const auto is_aligned = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; };
  const std::int64_t across = (a.columns + tile_columns<T> - 1) / tile_columns<T>;
  const std::int64_t tiles = (a.stride + tile_rows - 1) / tile_rows * across;
  const auto columns = static_cast<std::size_t>(a.columns);
  const Turn<T> p{static_cast<const T*>(a.x),
                  a.scale,
                  static_cast<std::uint8_t*>(a.turned),
                  a.rows,
                  a.columns,
                  a.stride,
                  across,
                  is_aligned(a.x) && is_aligned(a.codes) && a.columns % pack_size<T> == 0,
                  is_aligned(a.turned) && a.stride % 16 == 0,
                  static_cast<std::uint8_t*>(a.codes),
                  a.measure.largest == nullptr ? nullptr : a.measure.partials,
                  a.stored};
  const std::size_t count = static_cast<std::size_t>(a.rows) * columns;
  launch(stream, way == Way::both ? "fp8_cast_both_ways" : "fp8_turn", fp8_turn_kernel<T, format, way>,
         {static_cast<unsigned>(tiles), static_cast<unsigned>(threads)}, p,
         {reads(p.x, count), reads(p.scale, p.scale == nullptr ? 0 : 1), writes(p.codes, count),
          writes(p.partials, static_cast<std::size_t>(tiles)),
          writes(p.turned, columns * static_cast<std::size_t>(a.stride)),
          reads(p.stored.scales, static_cast<std::size_t>(p.stored.parts))});
}

template <class T, Way way>
void start_cast(const Fp8TurnArguments& a, void* stream) {
  constexpr auto e4m3 = start<T, Fp8Format::e4m3, way>, e5m2 = start<T, Fp8Format::e5m2, way>;
  (a.format == Fp8Format::e4m3 ? e4m3 : e5m2)(a, stream);
}

// With what it says of the magnitudes.
void start_both_ways(const Fp8TurnArguments& a, void* stream) {
  const std::int64_t tiles = fp8_turn_tiles(*a.element, a.columns, a.stride);
  if (tiles > 0) with_type_of(*a.element, [&]<class T> { start_cast<T, Way::both>(a, stream); });
  settle_fp8(a.measure, a.scale, static_cast<unsigned>(tiles),
             {static_cast<std::uint8_t*>(a.codes), a.rows * a.columns, static_cast<std::uint8_t*>(a.turned), a.rows,
              a.columns, a.stride},
             stream);
}

}  // namespace

void turn_fp8(const Fp8TurnArguments& a, void* stream) {
  static_assert(tile_columns<float> == 32 && tile_columns<__half> == 64 && tile_columns<__nv_bfloat16> == 64 &&
                tile_rows == 128);  // as fp8_turn_tiles() says
  if (a.codes != nullptr) return start_both_ways(a, stream);
  if (a.columns == 0 || a.stride == 0) return;
  // Codes are moved, whatever they mean.
  if (!a.element) return start<std::uint8_t, Fp8Format::e4m3, Way::turned>(a, stream);
  if (a.stored.scales != nullptr) return start<__half, Fp8Format::e4m3, Way::stored>(a, stream);
  with_type_of(*a.element, [&]<class T> { start_cast<T, Way::turned>(a, stream); });
}

}  // namespace llmtrain::kernels

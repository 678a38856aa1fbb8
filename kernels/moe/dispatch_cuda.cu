// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/packs.h"
#include "kernels/cuda/device/row_team.h"
#include "kernels/cuda/device/row_tiles.h"
#include "kernels/cuda/moe/dispatch_kernels.h"

namespace llmtrain::kernels {
namespace {

// Choices of a token whose rows are under way at a time.
constexpr int ahead = 4;

// Packs of `size` elements at one column of the rows of some of a token's choices.
template <class T, int size>
struct PacksOfChoices {
  using Elements = Pack<T, size>;

  __device__ PacksOfChoices(const ChoiceRows& map, std::int64_t token, int first) {
#pragma unroll
    for (int k = 0; k < ahead; ++k) row[k] = first + k < map.choices ? map.row_of[token * map.choices + first + k] : -1;
  }
  __device__ void load(const T* rows, int width, int column) {
#pragma unroll
    for (int k = 0; k < ahead; ++k)
      if (row[k] >= 0) loaded[k] = *reinterpret_cast<const Elements*>(rows + row[k] * width + column);
  }

  std::int64_t row[ahead];
  Elements loaded[ahead];
};

template <class T>
struct Dispatch {
  ChoiceRows map;
  const T* x;
  T* rows;
  RowTiles tiles;
};

// Over tokens, so that each is read once.
template <class T, int size>
__global__ void __launch_bounds__(row_tile_threads) dispatch_kernel(Dispatch<T> p) {
  using Elements = Pack<T, size>;
  const int width = p.map.width;
  over_tiles<size>(p.tiles, [&](std::int64_t token, int column) {
    const Elements x = *reinterpret_cast<const Elements*>(p.x + token * width + column);
    for (int j = 0; j < p.map.choices; ++j) {
      const std::int64_t row = p.map.row_of[token * p.map.choices + j];
      if (row >= 0) *reinterpret_cast<Elements*>(p.rows + row * width + column) = x;
    }
  });
}

template <class T>
struct Combine {
  ChoiceRows map;
  const T* rows;
  const float* gates;
  T* y;
  RowTiles tiles;
};

template <class T, int size>
__global__ void __launch_bounds__(row_tile_threads) combine_kernel(Combine<T> p) {
  using Elements = Pack<T, size>;
  const ChoiceRows& map = p.map;
  over_tiles<size>(p.tiles, [&](std::int64_t token, int column) {
    float sums[size] = {};
    for (int first = 0; first < map.choices; first += ahead) {
      PacksOfChoices<T, size> packs(map, token, first);
      packs.load(p.rows, map.width, column);
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        if (packs.row[k] < 0) continue;
        const float gate = p.gates == nullptr ? 1.0F : p.gates[token * map.choices + first + k];
#pragma unroll
        for (int e = 0; e < size; ++e) sums[e] = fmaf(gate, widened(packs.loaded[k].of[e]), sums[e]);
      }
    }
    Elements y;
#pragma unroll
    for (int e = 0; e < size; ++e) y.of[e] = narrowed<T>(sums[e]);
    *reinterpret_cast<Elements*>(p.y + token * map.width + column) = y;
  });
}

template <class T>
struct CombineBackward {
  ChoiceRows map;
  const T* dy;
  const T* rows;
  const float* gates;
  T* drows;
  float* dgates;
};

// drows = gate · dy of the rows that `packs` has, at this column; adds what this thread has of dy · rows to `products`.
template <class T, int size>
__device__ __forceinline__ void weigh(const CombineBackward<T>& p, std::int64_t token, int column, const float* gates,
                                      PacksOfChoices<T, size>& packs, float* products) {
  using Elements = Pack<T, size>;
  const Elements dy = *reinterpret_cast<const Elements*>(p.dy + token * p.map.width + column);
  packs.load(p.rows, p.map.width, column);
#pragma unroll
  for (int k = 0; k < ahead; ++k) {
    if (packs.row[k] < 0) continue;
    Elements drow;
#pragma unroll
    for (int e = 0; e < size; ++e) {
      const float gradient = widened(dy.of[e]);
      products[k] = fmaf(gradient, widened(packs.loaded[k].of[e]), products[k]);
      drow.of[e] = narrowed<T>(gates[k] * gradient);
    }
    *reinterpret_cast<Elements*>(p.drows + packs.row[k] * p.map.width + column) = drow;
  }
}

// A warp per token.
template <class T, int size>
__global__ void __launch_bounds__(32 * warps_of_block) combine_backward_kernel(CombineBackward<T> p) {
  const ChoiceRows& map = p.map;
  const int lane = place<Team::warp>();
  for (std::int64_t token = first_team<Team::warp>(); token < map.tokens; token += team_count<Team::warp>())
    for (int first = 0; first < map.choices; first += ahead) {
      PacksOfChoices<T, size> packs(map, token, first);
      const std::int64_t choice = token * map.choices + first;
      float gates[ahead], products[ahead] = {};
#pragma unroll
      for (int k = 0; k < ahead; ++k) gates[k] = packs.row[k] >= 0 ? p.gates[choice + k] : 0;
      for (int column = lane * size; column < map.width; column += 32 * size)
        weigh(p, token, column, gates, packs, products);
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        const float product = warp_sum(products[k]);
        if (lane == 0 && first + k < map.choices) p.dgates[choice + k] = product;
      }
    }
}

std::size_t count_of(std::int64_t rows, int width) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
}

MemoryUse reads_map(const ChoiceRows& map) { return reads(map.row_of, count_of(map.tokens, map.choices)); }

// Calls work.operator()<T, size>() with as many elements as accesses may have.
template <class Work, class... Pointers>
void with_packs_of(KernelElement element, int width, Work work, Pointers... pointers) {
  with_type_of(element, [&]<class T> {
    if (width % pack_size<T> == 0 && are_aligned_to_packs(pointers...))
      work.template operator()<T, pack_size<T>>();
    else
      work.template operator()<T, 1>();
  });
}

void dispatch(const DispatchArguments& a, void* stream) {
  const ChoiceRows& map = a.map;
  if (map.tokens == 0 || map.width == 0 || map.rows == 0) return;
  const auto start = [&]<class T, int size> {
    const Dispatch<T> p{map, static_cast<const T*>(a.x), static_cast<T*>(a.rows),
                        row_tiles(map.tokens, map.width, size)};
    launch(
        stream, "dispatch", dispatch_kernel<T, size>, shape_of(p.tiles), p,
        {reads_map(map), reads(p.x, count_of(map.tokens, map.width)), writes(p.rows, count_of(map.rows, map.width))});
  };
  with_packs_of(a.element, map.width, start, a.x, a.rows);
}

void combine(const CombineArguments& a, void* stream) {
  const ChoiceRows& map = a.map;
  if (map.tokens == 0 || map.width == 0) return;
  const auto start = [&]<class T, int size> {
    const Combine<T> p{map, static_cast<const T*>(a.rows), a.gates, static_cast<T*>(a.y),
                       row_tiles(map.tokens, map.width, size)};
    launch(stream, "combine", combine_kernel<T, size>, shape_of(p.tiles), p,
           {reads_map(map), reads(p.rows, count_of(map.rows, map.width)),
            reads(p.gates, count_of(map.tokens, map.choices)), writes(p.y, count_of(map.tokens, map.width))});
  };
  with_packs_of(a.element, map.width, start, a.rows, a.y);
}

void combine_backward(const CombineBackwardArguments& a, void* stream) {
  const ChoiceRows& map = a.map;
  if (map.tokens == 0) return;
  constexpr std::int64_t most_blocks = std::int64_t{1} << 20;
  const std::int64_t blocks = (map.tokens + warps_of_block - 1) / warps_of_block;
  const LaunchShape shape{static_cast<unsigned>(std::min(blocks, most_blocks)),
                          static_cast<unsigned>(most_threads(Team::warp))};
  const auto start = [&]<class T, int size> {
    const CombineBackward<T> p{map,     static_cast<const T*>(a.dy), static_cast<const T*>(a.rows),
                               a.gates, static_cast<T*>(a.drows),    a.dgates};
    const std::size_t rows = count_of(map.rows, map.width), choices = count_of(map.tokens, map.choices);
    launch(stream, "combine_backward", combine_backward_kernel<T, size>, shape, p,
           {reads_map(map), reads(p.dy, count_of(map.tokens, map.width)), reads(p.rows, rows), reads(p.gates, choices),
            writes(p.drows, rows), writes(p.dgates, choices)});
  };
  with_packs_of(a.element, map.width, start, a.dy, a.rows, a.drows);
}

}  // namespace

const DispatchDeviceKernels cuda_dispatch_kernels{dispatch, combine, combine_backward};

}  // namespace llmtrain::kernels

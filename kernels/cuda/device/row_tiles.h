// SPDX-License-Identifier: Apache-2.0
// How blocks share the work on rows of one width: each takes some whole rows at a time, as many as give its threads a
// few packs each.
#pragma once

#include <algorithm>

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"

namespace llmtrain::kernels {

struct RowTiles {
  std::int64_t rows = 0;
  int width = 0;      // elements, whole packs
  int tile_rows = 1;  // rows of a tile
};

constexpr int row_tile_threads = 256;

inline RowTiles row_tiles(std::int64_t rows, int width, int pack) {
  constexpr int least = 4 * row_tile_threads;  // packs of a tile
  const int packs = std::max(1, width / pack);
  return {rows, width, (least + packs - 1) / packs};
}

inline LaunchShape shape_of(const RowTiles& tiles) {
  constexpr std::int64_t most_blocks = std::int64_t{1} << 20;
  const std::int64_t blocks = (tiles.rows + tiles.tile_rows - 1) / tiles.tile_rows;
  return {static_cast<unsigned>(std::min(blocks, most_blocks)), static_cast<unsigned>(row_tile_threads)};
}

// Calls work(row, column) with the first column of each of this thread's packs.
template <int size, class Work>
__device__ __forceinline__ void over_tiles(const RowTiles& tiles, Work work) {
  const auto packs = static_cast<unsigned>(tiles.width / size);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * tiles.tile_rows;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * tiles.tile_rows; first < tiles.rows;
       first += step) {
    const std::int64_t left = tiles.rows - first;
    const auto rows = static_cast<unsigned>(left < tiles.tile_rows ? left : tiles.tile_rows);
    for (unsigned i = threadIdx.x; i < rows * packs; i += row_tile_threads) {
      const unsigned row = i / packs;
      work(first + row, static_cast<int>((i - row * packs) * size));
    }
  }
}

}  // namespace llmtrain::kernels

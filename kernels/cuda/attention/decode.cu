// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/decode_kernels.h"

#include "kernels/cuda/device/block_maximum.h"
#include "kernels/cuda/device/block_sum.h"
#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/packs.h"

namespace llmtrain::kernels {
namespace {

constexpr int threads = 128, warps = threads / 32;
// Query heads of a key's head that share what is read of the memory at a time, where there are several.
constexpr int shared_heads = 4;

template <class T>
struct Rows {
  const T* rows;
  std::int64_t token_stride, head_stride;

  __device__ __forceinline__ const T* of(std::int64_t token, std::int64_t head) const {
    return rows + token * token_stride + head * head_stride;
  }
};

template <class T>
struct Decode {
  Rows<T> query, key, value;
  T *keys, *values, *out;
  const std::int64_t *sequences, *positions;
  float* partials;
  std::int64_t tokens, heads, kv_heads, dim, capacity, pieces;
  std::int64_t lanes;  // threads that share a row
  double scale;        // wide, as the parameters are to have no gaps

  __device__ __forceinline__ std::int64_t group() const { return heads / kv_heads; }
  // What a head finds in a piece: weighted sums of values, and behind them the largest score and the sum of weights.
  __device__ __forceinline__ float* partial(std::int64_t token, std::int64_t head, std::int64_t piece) const {
    return partials + ((token * heads + head) * pieces + piece) * (dim + 2);
  }
};

// What a block works on: a piece of the keys of one token's sequence, of one of their heads.
struct Piece {
  std::int64_t token, kv_head, piece, first;
  int count;  // keys
};

// Rows of which a thread has packs under way together.
constexpr int together = 4;

// The threads side by side that share rows of keys and values, `size` elements of each at a time.
struct Lanes {
  int count;  // a power of two, of one warp
  int packs;  // of a row

  __device__ __forceinline__ int own() const { return static_cast<int>(threadIdx.x) % count; }
  __device__ __forceinline__ int group() const { return static_cast<int>(threadIdx.x) / count; }
  __device__ __forceinline__ int groups() const { return threads / count; }
};

template <class T, int size>
__device__ __forceinline__ Lanes lanes_of(const Decode<T>& p) {
  return {static_cast<int>(p.lanes), static_cast<int>(p.dim) / size};
}

// Packs `i` of the rows first, first + step, …, of which those from `end` on are zeros.
template <class T, int size>
__device__ __forceinline__ void load_rows(const T* rows, int dim, int i, int first, int step, int end,
                                          Pack<T, size> (&of)[together]) {
#pragma unroll
  for (int j = 0; j < together; ++j) {
    const int row = first + j * step;
    of[j] = row < end ? reinterpret_cast<const Pack<T, size>*>(rows + static_cast<std::int64_t>(row) * dim)[i]
                      : Pack<T, size>{};
  }
}

// The scores of `heads` queries, in shared memory, with the piece's keys.
template <int most_heads, class T, int size>
__device__ __forceinline__ void score(const float* queries, const T* keys, const Lanes& lanes, int count, int dim,
                                      int heads, float* scores) {
  const int step = lanes.groups();
  for (int first = lanes.group(); first - lanes.group() < count; first += together * step) {
    float sums[most_heads][together] = {};
    for (int i = lanes.own(); i < lanes.packs; i += lanes.count) {
      Pack<T, size> key[together];
      load_rows(keys, dim, i, first, step, count, key);
#pragma unroll
      for (int h = 0; h < most_heads; ++h) {
        if (h >= heads) continue;
        const float* const query = queries + h * dim + i * size;
#pragma unroll
        for (int e = 0; e < size; ++e)
#pragma unroll
          for (int j = 0; j < together; ++j) sums[h][j] = fmaf(query[e], widened(key[j].of[e]), sums[h][j]);
      }
    }
#pragma unroll
    for (int h = 0; h < most_heads; ++h) {
      if (h >= heads) continue;
#pragma unroll
      for (int j = 0; j < together; ++j) {
        for (int bits = lanes.count / 2; bits > 0; bits /= 2)
          sums[h][j] += __shfl_xor_sync(0xffffffffU, sums[h][j], bits);
        const int k = first + j * step;
        if (lanes.own() == 0 && k < count) scores[h * decode_piece + k] = sums[h][j];
      }
    }
  }
}

// Replaces a head's scores by weights e^(score − largest). Returns the largest score and the weights' sum, in all
// threads of the calling warp.
__device__ __forceinline__ float2 weigh(float* scores, int count) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  float largest = -INFINITY;
  for (int k = lane; k < count; k += 32) largest = fmaxf(largest, scores[k]);
  for (int bits = 16; bits > 0; bits /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, bits));
  float sum = 0;
  for (int k = lane; k < count; k += 32) sum += scores[k] = expf(scores[k] - largest);
  return make_float2(largest, warp_sum(sum));
}

// The weighted sums of the piece's values, by warp: [warps, heads, dim] in shared memory.
template <int most_heads, class T, int size>
__device__ __forceinline__ void sum_values(const T* values, const float* weights, const Lanes& lanes, int count,
                                           int dim, int heads, float* by_warp) {
  const int step = lanes.groups(), warp = static_cast<int>(threadIdx.x / 32);
  for (int i = lanes.own(); i - lanes.own() < lanes.packs; i += lanes.count) {
    float sums[most_heads][size] = {};
    for (int first = lanes.group(); first < count && i < lanes.packs; first += together * step) {
      Pack<T, size> value[together];
      load_rows(values, dim, i, first, step, count, value);
#pragma unroll
      for (int h = 0; h < most_heads; ++h) {
        if (h >= heads) continue;
#pragma unroll
        for (int j = 0; j < together; ++j) {
          const int k = first + j * step;
          const float weight = k < count ? weights[h * decode_piece + k] : 0;
#pragma unroll
          for (int e = 0; e < size; ++e) sums[h][e] = fmaf(weight, widened(value[j].of[e]), sums[h][e]);
        }
      }
    }
#pragma unroll
    for (int h = 0; h < most_heads; ++h) {
      if (h >= heads) continue;
#pragma unroll
      for (int e = 0; e < size; ++e) {
        for (int bits = 16; bits >= lanes.count; bits /= 2)
          sums[h][e] += __shfl_xor_sync(0xffffffffU, sums[h][e], bits);
        if (static_cast<int>(threadIdx.x) % 32 == lanes.own() && i < lanes.packs)
          by_warp[(warp * heads + h) * dim + i * size + e] = sums[h][e];
      }
    }
  }
}

// Stores the token's key and value where the piece has their place.
template <class T>
__device__ __forceinline__ void append(const Decode<T>& p, const Piece& of, T* keys, T* values) {
  const std::int64_t place = p.positions[of.token] - of.first;
  if (place >= of.count) return;
  const T *key = p.key.of(of.token, of.kv_head), *value = p.value.of(of.token, of.kv_head);
  for (std::int64_t d = threadIdx.x; d < p.dim; d += threads) {
    keys[place * p.dim + d] = key[d];
    values[place * p.dim + d] = value[d];
  }
}

template <class T, int size, int most_heads>
__global__ void __launch_bounds__(threads) decode_pieces_kernel(Decode<T> p) {
  DYNAMIC_SHARED(float, queries);  // [heads, dim], then scores [heads, decode_piece], then sums [warps, heads, dim]
  const int dim = static_cast<int>(p.dim), warp = static_cast<int>(threadIdx.x / 32);
  float* const scores = queries + most_heads * dim;
  float* const by_warp = scores + most_heads * decode_piece;
  const Lanes lanes = lanes_of<T, size>(p);
  const std::int64_t all = p.tokens * p.kv_heads * p.pieces;
  for (std::int64_t i = blockIdx.x; i < all; i += gridDim.x) {
    Piece of{i / (p.kv_heads * p.pieces), i / p.pieces % p.kv_heads, i % p.pieces, 0, 0};
    of.first = of.piece * decode_piece;
    const std::int64_t left = p.positions[of.token] + 1 - of.first;
    if (left <= 0) continue;
    of.count = static_cast<int>(left < decode_piece ? left : decode_piece);
    const std::int64_t begin = ((p.sequences[of.token] * p.kv_heads + of.kv_head) * p.capacity + of.first) * p.dim;
    append(p, of, p.keys + begin, p.values + begin);
    for (std::int64_t done = 0; done < p.group(); done += most_heads) {
      const std::int64_t first_head = of.kv_head * p.group() + done, open = p.group() - done;
      const int heads = static_cast<int>(open < most_heads ? open : most_heads);
      __syncthreads();  // some may still read the weights before
      for (int at = static_cast<int>(threadIdx.x); at < heads * dim; at += threads)
        queries[at] = static_cast<float>(p.scale) * widened(p.query.of(of.token, first_head + at / dim)[at % dim]);
      __syncthreads();
      score<most_heads, T, size>(queries, p.keys + begin, lanes, of.count, dim, heads, scores);
      __syncthreads();
      for (int h = warp; h < heads; h += warps) {
        const float2 found = weigh(scores + h * decode_piece, of.count);
        float* const to = p.partial(of.token, first_head + h, of.piece) + dim;
        if (threadIdx.x % 32 == 0) to[0] = found.x, to[1] = found.y;
      }
      __syncthreads();
      sum_values<most_heads, T, size>(p.values + begin, scores, lanes, of.count, dim, heads, by_warp);
      __syncthreads();
      for (int at = static_cast<int>(threadIdx.x); at < heads * dim; at += threads) {
        float sum = 0;
        for (int w = 0; w < warps; ++w) sum += by_warp[w * heads * dim + at];
        p.partial(of.token, first_head + at / dim, of.piece)[at % dim] = sum;
      }
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(threads) decode_join_kernel(Decode<T> p) {
  for (std::int64_t i = blockIdx.x; i < p.tokens * p.heads; i += gridDim.x) {
    const std::int64_t token = i / p.heads, head = i % p.heads, pieces = p.positions[token] / decode_piece + 1;
    float largest = -INFINITY;
    for (std::int64_t k = threadIdx.x; k < pieces; k += threads)
      largest = fmaxf(largest, p.partial(token, head, k)[p.dim]);
    largest = block_maximum<threads>(largest);
    float weights = 0;
    for (std::int64_t k = threadIdx.x; k < pieces; k += threads) {
      const float* const of = p.partial(token, head, k);
      weights = fmaf(expf(of[p.dim] - largest), of[p.dim + 1], weights);
    }
    weights = block_sum(weights);
    for (std::int64_t d = threadIdx.x; d < p.dim; d += threads) {
      float sum = 0;
#pragma unroll 4
      for (std::int64_t k = 0; k < pieces; ++k) {
        const float* const of = p.partial(token, head, k);
        sum = fmaf(expf(of[p.dim] - largest), of[d], sum);
      }
      p.out[i * p.dim + d] = narrowed<T>(sum / weights);
    }
  }
}

template <class T>
Rows<T> rows_of(const DecodeRows& of) {
  return {static_cast<const T*>(of.rows), of.token_stride, of.head_stride};
}

// As many threads as a row has packs, or as are in a warp, rounded up to a power of two.
std::int64_t lanes_for(std::int64_t packs) {
  std::int64_t lanes = 1;
  while (lanes < packs && lanes < 32) lanes *= 2;
  return lanes;
}

template <class T, int size, int most_heads>
void start(const DecodeArguments& a, void* stream) {
  const Decode<T> p{rows_of<T>(a.query),
                    rows_of<T>(a.key),
                    rows_of<T>(a.value),
                    static_cast<T*>(a.keys),
                    static_cast<T*>(a.values),
                    static_cast<T*>(a.out),
                    a.sequences,
                    a.positions,
                    a.partials,
                    a.tokens,
                    a.heads,
                    a.kv_heads,
                    a.dim,
                    a.capacity,
                    a.pieces,
                    lanes_for(a.dim / size),
                    a.scale};
  constexpr std::int64_t most_blocks = std::int64_t{1} << 20;
  const auto blocks = [](std::int64_t count) {
    return static_cast<unsigned>(count < most_blocks ? count : most_blocks);
  };
  const auto count_of = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  // Rows may lie between other numbers.
  const auto span = [&](const DecodeRows& of, std::int64_t heads) {
    return count_of((a.tokens - 1) * of.token_stride + (heads - 1) * of.head_stride + a.dim);
  };
  const std::size_t held = count_of(a.all_sequences * a.kv_heads * a.capacity * a.dim), tokens = count_of(a.tokens),
                    partials = count_of(a.tokens * a.heads * a.pieces * (a.dim + 2));
  const std::size_t shared = sizeof(float) * count_of(most_heads * ((1 + warps) * a.dim + decode_piece));
  launch(stream, "decode_pieces", decode_pieces_kernel<T, size, most_heads>,
         {blocks(a.tokens * a.kv_heads * a.pieces), static_cast<unsigned>(threads), shared}, p,
         {reads(p.query.rows, span(a.query, a.heads)), reads(p.key.rows, span(a.key, a.kv_heads)),
          reads(p.value.rows, span(a.value, a.kv_heads)), writes(p.keys, held), writes(p.values, held),
          reads(p.sequences, tokens), reads(p.positions, tokens), writes(p.partials, partials)});
  launch(
      stream, "decode_join", decode_join_kernel<T>, {blocks(a.tokens * a.heads), static_cast<unsigned>(threads)}, p,
      {reads(p.partials, partials), reads(p.positions, tokens), writes(p.out, count_of(a.tokens * a.heads * a.dim))});
}

template <class T, int size>
void start(const DecodeArguments& a, void* stream) {
  a.heads == a.kv_heads ? start<T, size, 1>(a, stream) : start<T, size, shared_heads>(a, stream);
}

void attend(const DecodeArguments& a, void* stream) {
  if (a.tokens == 0) return;
  with_type_of(a.element, [&]<class T> {
    const bool is_packed = a.dim % pack_size<T> == 0 && are_aligned_to_packs(a.keys, a.values);
    is_packed ? start<T, pack_size<T>>(a, stream) : start<T, 1>(a, stream);
  });
}

}  // namespace

const DecodeKernels cuda_decode_kernels{attend};

}  // namespace llmtrain::kernels

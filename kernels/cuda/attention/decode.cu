// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/decode_kernels.h"

#include "kernels/cuda/device/block_sum.h"
#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"

namespace llmtrain::kernels {
namespace {

constexpr int threads = 128, warps = threads / 32;
// Query heads of a key's head that share what is read of the memory at a time.
constexpr int shared_heads = 8;

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
  double scale;  // wide, as the parameters are to have no gaps

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

template <class T>
__device__ __forceinline__ float scaled_dot(const float* query, const T* key, int dim) {
  float sum = 0;
  for (int d = static_cast<int>(threadIdx.x % 32); d < dim; d += 32) sum = fmaf(query[d], widened(key[d]), sum);
  return warp_sum(sum);
}

// The scores of `heads` queries, in shared memory, with the piece's keys: a warp takes every fourth key.
template <class T>
__device__ __forceinline__ void score(const float* queries, const T* keys, const Piece& of, int dim, int heads,
                                      float* scores) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  for (int k = warp; k < of.count; k += warps)
    for (int h = 0; h < heads; ++h) {
      const float sum = scaled_dot(queries + h * dim, keys + static_cast<std::int64_t>(k) * dim, dim);
      if (threadIdx.x % 32 == 0) scores[h * decode_piece + k] = sum;
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

// The weighted sums of the piece's values, a column for each thread.
template <class T>
__device__ __forceinline__ void sum_values(const Decode<T>& p, const Piece& of, const T* values, const float* weights,
                                           std::int64_t first_head, int heads) {
  const int dim = static_cast<int>(p.dim);
  for (int d = static_cast<int>(threadIdx.x); d < dim; d += threads) {
    float sums[shared_heads] = {};
    for (int k = 0; k < of.count; ++k) {
      const float value = widened(values[static_cast<std::int64_t>(k) * dim + d]);
#pragma unroll
      for (int h = 0; h < shared_heads; ++h)
        if (h < heads) sums[h] = fmaf(weights[h * decode_piece + k], value, sums[h]);
    }
#pragma unroll
    for (int h = 0; h < shared_heads; ++h)
      if (h < heads) p.partial(of.token, first_head + h, of.piece)[d] = sums[h];
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

template <class T>
__global__ void __launch_bounds__(threads) decode_pieces_kernel(Decode<T> p) {
  DYNAMIC_SHARED(float, queries);  // [shared_heads, dim], then scores
  const int dim = static_cast<int>(p.dim), warp = static_cast<int>(threadIdx.x / 32);
  float* const scores = queries + shared_heads * dim;
  const std::int64_t all = p.tokens * p.kv_heads * p.pieces;
  for (std::int64_t i = blockIdx.x; i < all; i += gridDim.x) {
    Piece of{i / (p.kv_heads * p.pieces), i / p.pieces % p.kv_heads, i % p.pieces, 0, 0};
    of.first = of.piece * decode_piece;
    const std::int64_t left = p.positions[of.token] + 1 - of.first;
    if (left <= 0) continue;
    of.count = static_cast<int>(left < decode_piece ? left : decode_piece);
    const std::int64_t begin = ((p.sequences[of.token] * p.kv_heads + of.kv_head) * p.capacity + of.first) * p.dim;
    append(p, of, p.keys + begin, p.values + begin);
    for (std::int64_t done = 0; done < p.group(); done += shared_heads) {
      const std::int64_t first_head = of.kv_head * p.group() + done, open = p.group() - done;
      const int heads = static_cast<int>(open < shared_heads ? open : shared_heads);
      __syncthreads();  // some may still read the weights before
      for (int at = static_cast<int>(threadIdx.x); at < heads * dim; at += threads)
        queries[at] = static_cast<float>(p.scale) * widened(p.query.of(of.token, first_head + at / dim)[at % dim]);
      __syncthreads();
      score(queries, p.keys + begin, of, dim, heads, scores);
      __syncthreads();
      for (int h = warp; h < heads; h += warps) {
        const float2 found = weigh(scores + h * decode_piece, of.count);
        float* const to = p.partial(of.token, first_head + h, of.piece) + dim;
        if (threadIdx.x % 32 == 0) to[0] = found.x, to[1] = found.y;
      }
      __syncthreads();
      sum_values(p, of, p.values + begin, scores, first_head, heads);
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(threads) decode_join_kernel(Decode<T> p) {
  for (std::int64_t i = blockIdx.x; i < p.tokens * p.heads; i += gridDim.x) {
    const std::int64_t token = i / p.heads, head = i % p.heads, pieces = p.positions[token] / decode_piece + 1;
    float largest = -INFINITY;
    for (std::int64_t k = 0; k < pieces; ++k) largest = fmaxf(largest, p.partial(token, head, k)[p.dim]);
    float weights = 0;
    for (std::int64_t k = 0; k < pieces; ++k) {
      const float* const of = p.partial(token, head, k);
      weights = fmaf(expf(of[p.dim] - largest), of[p.dim + 1], weights);
    }
    for (std::int64_t d = threadIdx.x; d < p.dim; d += threads) {
      float sum = 0;
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

template <class T>
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
                    a.scale};
  constexpr std::int64_t most_blocks = std::int64_t{1} << 20;
  const auto blocks = [](std::int64_t count) {
    return static_cast<unsigned>(count < most_blocks ? count : most_blocks);
  };
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  // Rows may lie between other numbers.
  const auto span = [&](const DecodeRows& of, std::int64_t heads) {
    return size((a.tokens - 1) * of.token_stride + (heads - 1) * of.head_stride + a.dim);
  };
  const std::size_t held = size(a.all_sequences * a.kv_heads * a.capacity * a.dim), tokens = size(a.tokens),
                    partials = size(a.tokens * a.heads * a.pieces * (a.dim + 2));
  const std::size_t shared = sizeof(float) * size(shared_heads * (a.dim + decode_piece));
  launch(stream, "decode_pieces", decode_pieces_kernel<T>,
         {blocks(a.tokens * a.kv_heads * a.pieces), static_cast<unsigned>(threads), shared}, p,
         {reads(p.query.rows, span(a.query, a.heads)), reads(p.key.rows, span(a.key, a.kv_heads)),
          reads(p.value.rows, span(a.value, a.kv_heads)), writes(p.keys, held), writes(p.values, held),
          reads(p.sequences, tokens), reads(p.positions, tokens), writes(p.partials, partials)});
  launch(stream, "decode_join", decode_join_kernel<T>, {blocks(a.tokens * a.heads), static_cast<unsigned>(threads)}, p,
         {reads(p.partials, partials), reads(p.positions, tokens), writes(p.out, size(a.tokens * a.heads * a.dim))});
}

void attend(const DecodeArguments& a, void* stream) {
  if (a.tokens > 0) with_type_of(a.element, [&]<class T> { start<T>(a, stream); });
}

}  // namespace

const DecodeKernels cuda_decode_kernels{attend};

}  // namespace llmtrain::kernels

// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/moe/expert_rows_kernels.h"

namespace llmtrain::kernels {
namespace {

constexpr int threads = 256;

// Choices of a piece that are in shared memory at a time.
constexpr int at_hand = 256;

struct AssignRows {
  AssignRowsArguments arguments;
  unsigned choices;  // of all tokens
  unsigned piece;    // choices of a block
  int pieces;
};

// The choice that is the i-th to be served, all first choices before all second ones.
__device__ __forceinline__ unsigned choice_at(const AssignRowsArguments& a, unsigned i) {
  const auto tokens = static_cast<unsigned>(a.tokens);
  const unsigned column = i / tokens, place = i - column * tokens;
  const unsigned token = a.order == nullptr ? place : static_cast<unsigned>(a.order[place]);
  return token * static_cast<unsigned>(a.choices) + column;
}

// Consecutive choices in the order in which they are served, −1 in place of experts where there is none.
struct ChoicesAtHand {
  int experts[at_hand];
  unsigned choices[at_hand];

  __device__ void load(const AssignRows& p, unsigned begin, unsigned end) {
    for (unsigned i = threadIdx.x; i < at_hand; i += threads) {
      experts[i] = -1;
      if (begin + i >= end) continue;
      choices[i] = choice_at(p.arguments, begin + i);
      experts[i] = static_cast<int>(p.arguments.chosen[choices[i]]);
    }
  }
};

// Calls work(hand, begin, end) in all threads for the piece's choices, some at a time.
template <class Work>
__device__ __forceinline__ void over_piece(const AssignRows& p, ChoicesAtHand& hand, Work work) {
  const unsigned first = blockIdx.x * p.piece;
  const unsigned left = p.choices - first, last = first + (left < p.piece ? left : p.piece);
  for (unsigned begin = first; begin < last; begin += at_hand) {
    __syncthreads();
    hand.load(p, begin, last);
    __syncthreads();
    work(begin, last - begin < at_hand ? last - begin : at_hand);
  }
}

// Each thread counts for experts of its own.
__global__ void __launch_bounds__(threads) count_choices_kernel(AssignRows p) {
  SHARED_ARRAY(ChoicesAtHand, hand, 1);
  DYNAMIC_SHARED(int, counts);
  const int experts = p.arguments.experts;
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += threads) counts[e] = 0;
  over_piece(p, hand[0], [&](unsigned, unsigned) {
    for (int e = static_cast<int>(threadIdx.x); e < experts; e += threads) {
      int count = 0;
#pragma unroll 16
      for (int i = 0; i < at_hand; ++i) count += hand[0].experts[i] == e ? 1 : 0;
      counts[e] += count;
    }
  });
  int* const written = p.arguments.counts + static_cast<std::int64_t>(blockIdx.x) * experts;
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += threads) written[e] = counts[e];
}

// Replaces each of the values by the sum of those before it; returns the sum of all, in the block's first warp alone.
__device__ __forceinline__ int sums_before(int* values, int count) {
  int sum = 0;
  if (threadIdx.x >= 32) return sum;
  const auto lane = static_cast<int>(threadIdx.x);
  for (int first = 0; first < count; first += 32) {
    const int own = first + lane < count ? values[first + lane] : 0;
    int through = own;
    for (unsigned delta = 1; delta < 32; delta *= 2) {
      const int other = __shfl_up_sync(0xffffffffU, through, delta);
      if (lane >= static_cast<int>(delta)) through += other;
    }
    if (first + lane < count) values[first + lane] = sum + through - own;
    sum += __shfl_sync(0xffffffffU, through, 31);
  }
  return sum;
}

// Where the rows of experts begin, and how many choices of each come before the block's: [experts] both. Returns how
// many rows have choices.
__device__ int find_places(const AssignRows& p, int* begins, int* places) {
  SHARED_ARRAY(int, used, 1);
  const AssignRowsArguments& a = p.arguments;
  for (int e = static_cast<int>(threadIdx.x); e < a.experts; e += threads) {
    int all = 0;
    for (int piece = 0; piece < p.pieces; ++piece) {
      if (piece == static_cast<int>(blockIdx.x)) places[e] = all;
      all += a.counts[static_cast<std::int64_t>(piece) * a.experts + e];
    }
    begins[e] = all < a.most ? all : static_cast<int>(a.most);
  }
  __syncthreads();
  const int sum = sums_before(begins, a.experts);
  if (threadIdx.x == 0) used[0] = sum;
  __syncthreads();
  if (blockIdx.x == 0)
    for (int e = static_cast<int>(threadIdx.x); e < a.experts; e += threads)
      a.ends[e] = e + 1 < a.experts ? begins[e + 1] : used[0];
  return used[0];
}

// Each thread gives rows to the choices of experts of its own.
__global__ void __launch_bounds__(threads) place_choices_kernel(AssignRows p) {
  SHARED_ARRAY(ChoicesAtHand, hand, 1);
  SHARED_ARRAY(int, rows, at_hand);
  DYNAMIC_SHARED(int, begins);
  const AssignRowsArguments& a = p.arguments;
  int* const places = begins + a.experts;
  const int used = find_places(p, begins, places);
  over_piece(p, hand[0], [&](unsigned, unsigned count) {
    for (int i = static_cast<int>(threadIdx.x); i < at_hand; i += threads) rows[i] = -1;
    __syncthreads();
    for (int e = static_cast<int>(threadIdx.x); e < a.experts; e += threads) {
      int place = places[e];
#pragma unroll 8
      for (int i = 0; i < at_hand; ++i) {
        if (hand[0].experts[i] != e) continue;
        if (place < a.most) rows[i] = begins[e] + place;
        ++place;
      }
      places[e] = place;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < count; i += threads) {
      const unsigned choice = hand[0].choices[i];
      a.row_of[choice] = rows[i];
      if (rows[i] >= 0) a.choice_of[rows[i]] = choice;
    }
  });
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t row = used + static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; row < a.rows;
       row += step)
    a.choice_of[row] = 0;
}

void assign(const AssignRowsArguments& a, void* stream) {
  const std::int64_t choices = a.tokens * a.choices;
  const auto count = static_cast<std::size_t>(choices), tokens = static_cast<std::size_t>(a.tokens);
  const AssignRows p{a, static_cast<unsigned>(choices), static_cast<unsigned>(choices_of_piece(choices)),
                     static_cast<int>(choice_pieces(choices))};
  const auto counts = static_cast<std::size_t>(assigned_counts(choices, a.experts));
  const std::size_t shared = static_cast<std::size_t>(a.experts) * sizeof(int);
  const auto blocks = static_cast<unsigned>(p.pieces);
  launch(stream, "count_choices", count_choices_kernel, {blocks, static_cast<unsigned>(threads), shared}, p,
         {reads(a.chosen, count), reads(a.order, tokens), writes(a.counts, counts)});
  launch(stream, "place_choices", place_choices_kernel, {blocks, static_cast<unsigned>(threads), 2 * shared}, p,
         {reads(a.chosen, count), reads(a.order, tokens), reads(a.counts, counts),
          writes(a.ends, static_cast<std::size_t>(a.experts)), writes(a.row_of, count),
          writes(a.choice_of, static_cast<std::size_t>(a.rows))});
}

}  // namespace

const ExpertRowKernels cuda_expert_row_kernels{assign};

}  // namespace llmtrain::kernels

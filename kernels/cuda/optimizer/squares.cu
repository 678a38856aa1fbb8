// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizer/squares_kernels.h"

#include "kernels/cuda/device/block_sum.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/packs.h"

namespace llmtrain::kernels {
namespace {

constexpr int threads = 256;

template <class T>
struct Squares {
  const T* x;
  double* partials;
  std::int64_t n, pieces;
  std::int64_t is_aligned;  // whole, as the parameters are to have no gaps
};

struct Partials {
  const double* partials;
  double* sum;
  std::int64_t pieces;
};

// Sums the squares of the pack that begins at `first`, which ends early with the array.
template <class T>
__device__ __forceinline__ float squares_of_pack(const Squares<T>& p, std::int64_t first) {
  constexpr int size = pack_size<T>;
  float sum = 0;
  if (p.is_aligned != 0 && first + size <= p.n) {
    const auto pack = *reinterpret_cast<const Pack<T, size>*>(p.x + first);
#pragma unroll
    for (int k = 0; k < size; ++k) sum = fmaf(widened(pack.of[k]), widened(pack.of[k]), sum);
  } else {
    for (int k = 0; k < size && first + k < p.n; ++k) sum = fmaf(widened(p.x[first + k]), widened(p.x[first + k]), sum);
  }
  return sum;
}

// Packs are counted from the array's beginning wherever that lies, and dealt out to the threads of all pieces in turn.
template <class T>
__global__ void __launch_bounds__(threads) squares_kernel(Squares<T> p) {
  constexpr int size = pack_size<T>;
  for (std::int64_t piece = blockIdx.x; piece < p.pieces; piece += gridDim.x) {
    double sum = 0;
    for (std::int64_t i = piece * threads + threadIdx.x; i * size < p.n; i += p.pieces * threads)
      sum += static_cast<double>(squares_of_pack(p, i * size));
    sum = block_sum(sum);
    if (threadIdx.x == 0) p.partials[piece] = sum;
  }
}

__global__ void __launch_bounds__(threads) squares_total_kernel(Partials p) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < p.pieces; i += threads) sum += p.partials[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *p.sum = sum;
}

template <class T>
void start(const SquaresArguments& a, void* stream) {
  const auto* x = static_cast<const T*>(a.x);
  const Squares<T> p{x, a.partials, a.n, square_pieces(a.n), are_aligned_to_packs(x) ? 1 : 0};
  const auto pieces = static_cast<std::size_t>(p.pieces);
  launch(stream, "squares", squares_kernel<T>, {static_cast<unsigned>(p.pieces), static_cast<unsigned>(threads)}, p,
         {reads(x, static_cast<std::size_t>(a.n)), writes(p.partials, pieces)});
  total_squares(p.partials, p.pieces, a.sum, stream);
}

void sum(const SquaresArguments& a, void* stream) {
  with_type_of(a.element, [&]<class T> { start<T>(a, stream); });
}

}  // namespace

void total_squares(const double* partials, std::int64_t pieces, double* sum, void* stream) {
  launch(stream, "squares_total", squares_total_kernel, {1U, static_cast<unsigned>(threads)},
         Partials{partials, sum, pieces}, {reads(partials, static_cast<std::size_t>(pieces)), writes(sum, 1)});
}

const SquaresKernels cuda_squares_kernels{sum};

}  // namespace llmtrain::kernels

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/device/block_sum.h"
#include "kernels/cuda/device/expert_lanes.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/row_team.h"
#include "kernels/cuda/moe/load_importance_kernels.h"

namespace llmtrain::kernels {
namespace {

// Φ.
__device__ __forceinline__ float normal_distribution(float z) { return 0.5F * erfcf(z * -0.7071067812F); }
// Its slope.
__device__ __forceinline__ float normal_density(float z) { return 0.3989422804F * expf(-0.5F * z * z); }

struct LoadImportanceSums {
  LoadImportanceArguments arguments;
  std::int64_t piece;  // tokens of a block
};

// A warp per token; a block forms the sums of its tokens.
template <int held>
__global__ void __launch_bounds__(32 * router_warps) load_importance_sums_kernel(LoadImportanceSums p) {
  DYNAMIC_SHARED(double, row);
  using Experts = OfExperts<held>;
  const LoadImportanceArguments& a = p.arguments;
  const std::int64_t first = blockIdx.x * p.piece, end = first + p.piece;
  double importance[held] = {}, load[held] = {};
  for (std::int64_t token = first + threadIdx.x / 32; token < end && token < a.tokens; token += router_warps) {
    const float* const logits = a.logits + token * a.experts;
    const float threshold = a.noisy[token * a.experts + a.chosen[(token + 1) * a.choices - 1]];
    if (threadIdx.x % 32 == 0) a.thresholds[token] = threshold;
    float values[held];
    const float sum = exponentials<held>(logits, a.experts, values).sum;
    Experts::over(a.experts, [&](int expert, int i) {
      importance[i] += values[i] / sum;
      load[i] += normal_distribution((logits[expert] - threshold) / a.deviation);
    });
  }
  store_sums_of_warps(row, 2 * a.experts, a.partials, [&](double* to) {
    Experts::over(a.experts, [&](int expert, int i) {
      to[expert] += importance[i];
      to[a.experts + expert] += load[i];
    });
  });
}

constexpr int totals_threads = 256;

// A warp per number, of whose pieces each lane adds every 32nd.
__global__ void __launch_bounds__(totals_threads) load_importance_totals_kernel(LoadImportanceTotalsArguments a) {
  const int lane = static_cast<int>(threadIdx.x % 32), columns = 2 * a.experts;
  const int number = static_cast<int>((blockIdx.x * totals_threads + threadIdx.x) / 32), column = number - a.numbers;
  if (column >= columns) return;
  double sum = 0;
  if (column < 0) {
    sum = lane == 0 ? a.before[number] : 0;
  } else {
    for (std::int64_t piece = lane; piece < a.pieces; piece += 32) sum += a.partials[piece * columns + column];
  }
  sum = warp_sum(sum);
  if (lane == 0) a.totals[number] = sum;
}

// Half the squared coefficient of variation of a warp's values, and its slopes.
__device__ __forceinline__ double half_variation(const double* values, int count, float* slopes) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  double sum = 0, squares = 0;
  for (int e = lane; e < count; e += 32) sum += values[e];
  const double mean = warp_sum(sum) / count;
  for (int e = lane; e < count; e += 32) squares += (values[e] - mean) * (values[e] - mean);
  const double variation = warp_sum(squares) / count / (mean * mean);
  for (int e = lane; e < count; e += 32)
    slopes[e] = static_cast<float>(((values[e] - mean) / mean - variation) / (count * mean));
  return variation / 2;
}

// A warp.
__global__ void __launch_bounds__(32) load_importance_loss_kernel(LoadImportanceLossArguments a) {
  const double of_importance = half_variation(a.sums, a.experts, a.slopes);
  const double of_load = half_variation(a.sums + a.experts, a.experts, a.slopes + a.experts);
  if (threadIdx.x == 0) *a.loss = of_importance + of_load;
}

// A warp per token.
template <int held>
__global__ void __launch_bounds__(32 * warps_of_block)
    load_importance_backward_kernel(LoadImportanceBackwardArguments a) {
  using Experts = OfExperts<held>;
  for (std::int64_t token = first_team<Team::warp>(); token < a.tokens; token += team_count<Team::warp>()) {
    const float* const logits = a.logits + token * a.experts;
    const auto last = static_cast<int>(a.chosen[(token + 1) * a.choices - 1]);
    const float threshold = a.thresholds[token];
    float probabilities[held], of_load[held], product = 0, of_threshold = 0;
    const float sum = exponentials<held>(logits, a.experts, probabilities).sum;
    Experts::over(a.experts, [&](int expert, int i) {
      probabilities[i] /= sum;
      product += probabilities[i] * a.slopes[expert];
      const float density = normal_density((logits[expert] - threshold) / a.deviation) / a.deviation;
      of_load[i] = density * a.slopes[a.experts + expert];
      of_threshold += of_load[i];
    });
    product = warp_sum(product);
    of_threshold = warp_sum(of_threshold);
    Experts::over(a.experts, [&](int expert, int i) {
      float gradient = probabilities[i] * (a.slopes[expert] - product) + of_load[i];
      // The threshold is one of the token's own logits.
      if (expert == last) gradient -= of_threshold;
      a.dlogits[token * a.experts + expert] += a.scale * gradient;
    });
  }
}

std::size_t size_of(std::int64_t rows, std::int64_t columns) { return static_cast<std::size_t>(rows * columns); }

void sums(const LoadImportanceArguments& a, void* stream) {
  if (a.tokens == 0) return;
  const std::int64_t pieces = token_pieces(a.tokens), columns = 2 * std::int64_t{a.experts};
  const LaunchShape shape{static_cast<unsigned>(pieces), 32U * router_warps, size_of(columns, sizeof(double))};
  const std::size_t all = size_of(a.tokens, a.experts), tokens = size_of(a.tokens, 1);
  with_held(a.experts, [&]<int held> {
    launch(stream, "load_importance_sums", load_importance_sums_kernel<held>, shape,
           LoadImportanceSums{a, tokens_of_piece(a.tokens)},
           {reads(a.logits, all), reads(a.noisy, all), reads(a.chosen, size_of(a.tokens, a.choices)),
            writes(a.thresholds, tokens), writes(a.partials, size_of(pieces, columns))});
  });
}

void totals(const LoadImportanceTotalsArguments& a, void* stream) {
  const int numbers = a.numbers + 2 * a.experts;
  constexpr int of_block = totals_threads / 32;
  launch(stream, "load_importance_totals", load_importance_totals_kernel,
         {static_cast<unsigned>((numbers + of_block - 1) / of_block), static_cast<unsigned>(totals_threads)}, a,
         {reads(a.partials, size_of(a.pieces, 2 * std::int64_t{a.experts})), reads(a.before, size_of(a.numbers, 1)),
          writes(a.totals, size_of(numbers, 1))});
}

void loss(const LoadImportanceLossArguments& a, void* stream) {
  const std::size_t numbers = size_of(2, a.experts);
  launch(stream, "load_importance_loss", load_importance_loss_kernel, {1U, 32U}, a,
         {reads(a.sums, numbers), writes(a.loss, 1), writes(a.slopes, numbers)});
}

void backward(const LoadImportanceBackwardArguments& a, void* stream) {
  if (a.tokens == 0) return;
  constexpr std::int64_t most_blocks = std::int64_t{1} << 20;
  const std::int64_t blocks = (a.tokens + warps_of_block - 1) / warps_of_block;
  const LaunchShape shape{static_cast<unsigned>(std::min(blocks, most_blocks)),
                          static_cast<unsigned>(most_threads(Team::warp))};
  const std::size_t all = size_of(a.tokens, a.experts);
  with_held(a.experts, [&]<int held> {
    launch(
        stream, "load_importance_backward", load_importance_backward_kernel<held>, shape, a,
        {reads(a.logits, all), reads(a.thresholds, size_of(a.tokens, 1)), reads(a.chosen, size_of(a.tokens, a.choices)),
         reads(a.slopes, size_of(2, a.experts)), updates(a.dlogits, all)});
  });
}

}  // namespace

const LoadImportanceKernels cuda_load_importance_kernels{sums, totals, loss, backward};

}  // namespace llmtrain::kernels

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/device/block_sum.h"
#include "kernels/cuda/device/expert_lanes.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/row_team.h"
#include "kernels/cuda/moe/routing_kernels.h"

namespace llmtrain::kernels {
namespace {

// An expert and its score; none is −1.
struct Candidate {
  float score;
  int expert;
};

// Whether a goes before b: the larger score, of equal ones the lower expert. A softmax is NaN everywhere or nowhere.
__device__ __forceinline__ bool precedes(const Candidate& a, const Candidate& b) {
  if (a.expert < 0 || b.expert < 0) return b.expert < 0 && a.expert >= 0;
  if (a.score > b.score || b.score > a.score) return a.score > b.score;
  return a.expert < b.expert;
}

// The first of all lanes' candidates, in each of them.
__device__ __forceinline__ Candidate first_of_warp(Candidate best) {
  for (int bits = 16; bits > 0; bits /= 2) {
    const Candidate other{__shfl_xor_sync(all_lanes, best.score, bits), __shfl_xor_sync(all_lanes, best.expert, bits)};
    if (precedes(other, best)) best = other;
  }
  return best;
}

struct Route {
  RouteArguments arguments;
  std::int64_t piece;  // tokens of a block
  int columns;
};

// What a lane adds up over its tokens, of its experts and of its share of the rest.
template <int held>
struct LaneSums {
  double probabilities[held] = {};
  int first[held] = {}, chosen[held] = {};
  double z = 0, entropy = 0;
};

__device__ __forceinline__ float entropy_of(float probability) {
  if (probability == 0) return 0;
  return -probability * logf(probability);  // NaN of NaN
}

// The softmax of a token's logits, which it stores; `values` become this lane's probabilities.
template <int held>
__device__ __forceinline__ void softmax(const RouteArguments& a, std::int64_t token, float* values,
                                        LaneSums<held>& sums) {
  using Experts = OfExperts<held>;
  float* const probabilities = a.probabilities + token * a.experts;
  const ExponentialSum of_token = exponentials<held>(a.logits + token * a.experts, a.experts, values);
  const float largest = of_token.largest, sum = of_token.sum;
  Experts::over(a.experts, [&](int expert, int i) {
    values[i] /= sum;
    probabilities[expert] = values[i];
    sums.probabilities[i] += values[i];
    sums.entropy += entropy_of(values[i]);
  });
  if (a.log_sums == nullptr || threadIdx.x % 32 != 0) return;
  const float log_sum = largest + logf(sum);
  a.log_sums[token] = log_sum;
  sums.z += log_sum * log_sum;
}

// The expert of a token's j-th choice with its probability, of those that `taken` has no bit for.
template <int held>
__device__ __forceinline__ Candidate choose(const RouteArguments& a, std::int64_t token, int j,
                                            const float* probabilities, unsigned taken) {
  using Experts = OfExperts<held>;
  if (a.is_chosen) {
    const auto expert = static_cast<int>(a.chosen[token * a.choices + j]);
    float score = 0;
    Experts::over(a.experts, [&](int each, int i) { score = each == expert ? probabilities[i] : score; });
    return {__shfl_sync(all_lanes, score, expert % 32), expert};
  }
  Candidate best{0, -1};
  Experts::over(a.experts, [&](int expert, int i) {
    const Candidate own{probabilities[i], expert};
    if ((taken >> i & 1U) == 0 && precedes(own, best)) best = own;
  });
  return first_of_warp(best);
}

template <int held>
__device__ __forceinline__ void route_token(const RouteArguments& a, std::int64_t token, LaneSums<held>& sums) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  float probabilities[held];
  softmax<held>(a, token, probabilities, sums);
  unsigned taken = 0;
  float total = 0;
  Candidate mine{0, -1};  // lane j has the j-th choice
  for (int j = 0; j < a.choices; ++j) {
    const Candidate best = choose<held>(a, token, j, probabilities, taken);
    total += best.score;
    if (lane == j) mine = best;
    OfExperts<held>::over(a.experts, [&](int expert, int i) {
      if (expert != best.expert) return;
      taken |= 1U << i;
      sums.chosen[i] += 1;
      sums.first[i] += j == 0 ? 1 : 0;
    });
  }
  if (lane >= a.choices) return;
  const std::int64_t choice = token * a.choices + lane;
  if (!a.is_chosen) a.chosen[choice] = mine.expert;
  a.scores[choice] = mine.score;
  if (a.gates != nullptr) a.gates[choice] = mine.score / total;
}

// A warp per token; a block forms the sums of its tokens, one warp's after the other's.
template <int held>
__global__ void __launch_bounds__(32 * router_warps) route_kernel(Route p) {
  DYNAMIC_SHARED(double, row);
  const RouteArguments& a = p.arguments;
  const int columns = p.columns, warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t first = blockIdx.x * p.piece, end = first + p.piece;
  LaneSums<held> sums;
  for (std::int64_t token = first + warp; token < end && token < a.tokens; token += router_warps)
    route_token<held>(a, token, sums);
  sums.entropy = warp_sum(sums.entropy);
  store_sums_of_warps(row, columns, a.partials, [&](double* to) {
    OfExperts<held>::over(a.experts, [&](int expert, int i) {
      to[expert] += sums.first[i];
      to[a.experts + expert] += sums.chosen[i];
      to[2 * a.experts + expert] += sums.probabilities[i];
    });
    if (threadIdx.x % 32 != 0) return;
    to[columns - 2] += sums.z;
    to[columns - 1] += sums.entropy;
  });
}

constexpr int totals_threads = 256;

struct RoutingTotals {
  RoutingTotalsArguments arguments;
  int columns;  // of partial sums
};

// A warp per column, of whose pieces each lane adds every 32nd.
__global__ void __launch_bounds__(totals_threads) routing_totals_kernel(RoutingTotals p) {
  const RoutingTotalsArguments& a = p.arguments;
  const int columns = p.columns, lane = static_cast<int>(threadIdx.x % 32);
  const auto column = static_cast<int>((blockIdx.x * totals_threads + threadIdx.x) / 32);
  if (column > columns) return;
  if (column == columns) {
    if (lane == 0) a.totals[columns - 1] = a.ends[a.experts - 1];
    return;
  }
  double sum = 0;
  for (std::int64_t piece = lane; piece < a.pieces; piece += 32) sum += a.partials[piece * columns + column];
  sum = warp_sum(sum);
  // The number of rows comes before the entropy.
  if (lane == 0) a.totals[column < columns - 1 ? column : columns] = sum;
}

// A warp.
__global__ void __launch_bounds__(32) routing_summary_kernel(RoutingSummaryArguments a) {
  const double* const chosen = a.totals + a.experts;
  const double* const probabilities = a.totals + 2 * a.experts;
  const double* const rest = a.totals + 3 * a.experts;  // z, rows, entropy
  double balance = 0, most = 0;
  for (int e = static_cast<int>(threadIdx.x); e < a.experts; e += 32) {
    balance += a.totals[e] * probabilities[e];
    most = fmax(most, chosen[e]);
    if (a.first != nullptr) a.first[e] = static_cast<float>(a.totals[e]);
  }
  balance = warp_sum(balance);
  for (int bits = 16; bits > 0; bits /= 2) most = fmax(most, __shfl_xor_sync(all_lanes, most, bits));
  if (threadIdx.x != 0) return;
  const double experts = a.experts;
  a.sums[0] = 1;
  a.sums[1] = balance * (experts / (a.tokens * a.tokens));
  a.sums[2] = rest[0] / a.tokens;
  a.sums[3] = 1 - rest[1] / a.choices;
  a.sums[4] = most / (a.choices / experts);
  a.sums[5] = a.experts > 1 ? rest[2] / (a.tokens * log(experts)) : 0;
}

// The gradient of the score of a token's j-th choice. g_j = s_j / Σ s, so ds_j = (dg_j − Σ_i dg_i g_i) / Σ s.
struct ScoreGradient {
  float product = 0, sum = 1;

  __device__ ScoreGradient(const RouteBackwardArguments& a, std::int64_t token) {
    if (a.gates == nullptr) return;
    sum = 0;
    for (std::int64_t c = token * a.choices; c < (token + 1) * a.choices; ++c) {
      product += a.dgates[c] * a.gates[c];
      sum += a.probabilities[token * a.experts + a.chosen[c]];
    }
  }
  __device__ float operator()(float dgate) const { return (dgate - product) / sum; }
};

// A warp per token.
template <int held>
__global__ void __launch_bounds__(32 * warps_of_block) route_backward_kernel(RouteBackwardArguments a) {
  using Experts = OfExperts<held>;
  for (std::int64_t token = first_team<Team::warp>(); token < a.tokens; token += team_count<Team::warp>()) {
    const float* const probabilities = a.probabilities + token * a.experts;
    const ScoreGradient score_gradient(a, token);
    float gradients[held], product = 0;
    Experts::over(a.experts, [&](int expert, int i) {
      gradients[i] = a.first != nullptr ? a.first_scale * a.first[expert] : 0;
      for (std::int64_t c = token * a.choices; c < (token + 1) * a.choices; ++c)
        if (a.chosen[c] == expert) gradients[i] += score_gradient(a.dgates[c]);
      product += gradients[i] * probabilities[expert];
    });
    product = warp_sum(product);
    // The gradient of the log-sum-exp is the softmax.
    const float log_sum = a.log_sums != nullptr ? a.log_sum_scale * a.log_sums[token] : 0;
    Experts::over(a.experts, [&](int expert, int i) {
      a.dlogits[token * a.experts + expert] = probabilities[expert] * (gradients[i] - product + log_sum);
    });
  }
}

std::size_t count_of(std::int64_t rows, std::int64_t columns) { return static_cast<std::size_t>(rows * columns); }

void route(const RouteArguments& a, void* stream) {
  if (a.tokens == 0) return;
  const std::size_t all = count_of(a.tokens, a.experts), choices = count_of(a.tokens, a.choices);
  const std::int64_t pieces = token_pieces(a.tokens);
  const std::int64_t columns = routing_columns(a.experts);
  const LaunchShape shape{static_cast<unsigned>(pieces), 32U * router_warps, count_of(columns, sizeof(double))};
  with_held(a.experts, [&]<int held> {
    launch(stream, "route", route_kernel<held>, shape, Route{a, tokens_of_piece(a.tokens), static_cast<int>(columns)},
           {reads(a.logits, all), writes(a.probabilities, all),
            a.is_chosen ? reads(a.chosen, choices) : writes(a.chosen, choices), writes(a.scores, choices),
            writes(a.gates, choices), writes(a.log_sums, count_of(a.tokens, 1)),
            writes(a.partials, count_of(pieces, columns))});
  });
}

void totals(const RoutingTotalsArguments& a, void* stream) {
  const int columns = routing_columns(a.experts);
  constexpr int of_block = totals_threads / 32;
  const auto blocks = static_cast<unsigned>((columns + 1 + of_block - 1) / of_block);
  launch(stream, "routing_totals", routing_totals_kernel, {blocks, static_cast<unsigned>(totals_threads)},
         RoutingTotals{a, columns},
         {reads(a.partials, count_of(a.pieces, columns)), reads(a.ends, count_of(a.experts, 1)),
          writes(a.totals, count_of(columns + 1, 1))});
}

void summary(const RoutingSummaryArguments& a, void* stream) {
  launch(stream, "routing_summary", routing_summary_kernel, {1U, 32U}, a,
         {reads(a.totals, count_of(3 * a.experts + 3, 1)), writes(a.sums, 6), writes(a.first, count_of(a.experts, 1))});
}

void route_backward(const RouteBackwardArguments& a, void* stream) {
  if (a.tokens == 0) return;
  const std::size_t all = count_of(a.tokens, a.experts), choices = count_of(a.tokens, a.choices);
  constexpr std::int64_t most_blocks = std::int64_t{1} << 20;
  const std::int64_t blocks = (a.tokens + warps_of_block - 1) / warps_of_block;
  const LaunchShape shape{static_cast<unsigned>(std::min(blocks, most_blocks)),
                          static_cast<unsigned>(most_threads(Team::warp))};
  with_held(a.experts, [&]<int held> {
    launch(stream, "route_backward", route_backward_kernel<held>, shape, a,
           {reads(a.dgates, choices), reads(a.probabilities, all), reads(a.chosen, choices), reads(a.gates, choices),
            reads(a.log_sums, count_of(a.tokens, 1)), reads(a.first, count_of(a.experts, 1)), writes(a.dlogits, all)});
  });
}

}  // namespace

const RoutingKernels cuda_routing_kernels{route, totals, summary, route_backward};

}  // namespace llmtrain::kernels

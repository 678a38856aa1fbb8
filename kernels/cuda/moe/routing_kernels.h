// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU for routers of experts (kernels/moe/routing.h), with raw pointers to contiguous device memory.
// LibTorch and CUDA are not needed here.
#pragma once

#include <algorithm>
#include <cstdint>

namespace llmtrain::kernels {

// How many experts there may be, and how many a token may choose.
constexpr int most_routed_experts = 512, most_choices = 32;

struct RouteArguments {
  const float* logits = nullptr;  // [tokens, experts]
  std::int64_t tokens = 0;
  int experts = 0;
  int choices = 0;                 // of a token
  bool is_chosen = false;          // whether `chosen` holds the choices already
  float* probabilities = nullptr;  // [tokens, experts]
  std::int64_t* chosen = nullptr;  // [tokens, choices], best first
  float* scores = nullptr;         // [tokens, choices]: probabilities of the chosen ones
  float* gates = nullptr;          // [tokens, choices]: scores by their sum; null: not needed
  float* log_sums = nullptr;       // [tokens], or null
  double* partials = nullptr;      // [token_pieces(), routing_columns()]
};

// Sums over tokens are formed from one partial sum per piece of so many.
inline std::int64_t tokens_of_piece(std::int64_t tokens) {
  constexpr std::int64_t least = 64, most_pieces = 512;
  return std::max(least, (tokens + most_pieces - 1) / most_pieces);
}

inline std::int64_t token_pieces(std::int64_t tokens) {
  return (tokens + tokens_of_piece(tokens) - 1) / tokens_of_piece(tokens);
}

// Sums of each expert: its first choices, its choices, its probabilities; then z and entropy.
constexpr int routing_columns(int experts) { return 3 * experts + 2; }

struct RoutingTotalsArguments {
  const double* partials = nullptr;  // [pieces, routing_columns()]
  std::int64_t pieces = 0;
  int experts = 0;
  const int* ends = nullptr;  // [experts]
  double* totals = nullptr;   // [3 · experts + 3], routing_totals()
};

struct RoutingSummaryArguments {
  const double* totals = nullptr;  // [3 · experts + 3]
  int experts = 0;
  double tokens = 0, choices = 0;  // of the micro-batch
  double* sums = nullptr;          // [6], routing_summary()
  float* first = nullptr;          // [experts]: the first of the totals, or null
};

struct RouteBackwardArguments {
  const float* dgates = nullptr;         // [tokens, choices]
  const float* probabilities = nullptr;  // [tokens, experts]
  const std::int64_t* chosen = nullptr;  // [tokens, choices]
  const float* gates = nullptr;          // [tokens, choices] where they are normalized, or null
  const float* log_sums = nullptr;       // [tokens], or null
  const float* first = nullptr;          // [experts], or null
  float log_sum_scale = 0, first_scale = 0;
  float* dlogits = nullptr;  // [tokens, experts]
  std::int64_t tokens = 0;
  int experts = 0;
  int choices = 0;
};

struct RoutingKernels {
  // One kernel. Bytes: logits and probabilities once, and what there is of each choice.
  void (*route)(const RouteArguments& arguments, void* stream);
  // One kernel each, over numbers that do not grow with the tokens.
  void (*totals)(const RoutingTotalsArguments& arguments, void* stream);
  void (*summary)(const RoutingSummaryArguments& arguments, void* stream);
  // One kernel. Bytes: probabilities and their gradient once, and what there is of each choice.
  void (*route_backward)(const RouteBackwardArguments& arguments, void* stream);
};

// Defined where kernels/moe/routing_cuda.cu is compiled.
extern const RoutingKernels cuda_routing_kernels;

}  // namespace llmtrain::kernels

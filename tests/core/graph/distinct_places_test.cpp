// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operators/distinct_places.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>

namespace llmtrain {
namespace {

// The mean number of places that a token goes to, over all of its choices: of groups, and of experts in these.
double enumerated(const MixtureOfExpertsRecipe& moe, unsigned places) {
  const auto experts = static_cast<unsigned>(moe.experts), groups = static_cast<unsigned>(moe.groups);
  double reached = 0, ways = 0;
  for (std::uint32_t chosen_groups = 0; chosen_groups < 1U << groups; ++chosen_groups) {
    if (std::popcount(chosen_groups) != moe.top_groups) continue;
    for (std::uint32_t chosen = 0; chosen < 1U << experts; ++chosen) {
      if (std::popcount(chosen) != moe.top_k) continue;
      std::uint32_t in_places = 0, in_groups = 0;
      for (unsigned expert = 0; expert < experts; ++expert) {
        if ((chosen >> expert & 1U) == 0) continue;
        in_places |= 1U << expert * places / experts;
        in_groups |= 1U << expert * groups / experts;
      }
      if ((in_groups & ~chosen_groups) != 0) continue;
      reached += std::popcount(in_places);
      ++ways;
    }
  }
  return reached / ways;
}

TEST_CASE("a token goes to as many places as all of its choices have on average") {
  for (const std::int64_t top_groups : {1, 2, 3, 4})
    for (const std::int64_t top_k : {1, 2, 3})
      for (const unsigned places : {1U, 2U, 4U, 12U}) {
        const MixtureOfExpertsRecipe moe{.experts = 12, .top_k = top_k, .groups = 4, .top_groups = top_groups};
        CAPTURE(top_groups, top_k, places);
        CHECK(distinct_share(moe, places) * static_cast<double>(top_k) ==
              Approx(enumerated(moe, places)).epsilon(1e-12));
      }
}

// DeepSeek-V3 (arXiv 2412.19437, section 2.1.2): each token is sent to at most 4 nodes.
TEST_CASE("a token of DeepSeek-V3 goes to at most four of eight nodes, and hardly to fewer") {
  const MixtureOfExpertsRecipe limited{.experts = 256, .top_k = 8, .groups = 8, .top_groups = 4};
  const MixtureOfExpertsRecipe free{.experts = 256, .top_k = 8};
  CHECK(8 * distinct_share(limited, 8) < 4);
  CHECK(8 * distinct_share(limited, 8) > 3.6);
  CHECK(8 * distinct_share(free, 8) > 5.2);
}

}  // namespace
}  // namespace llmtrain

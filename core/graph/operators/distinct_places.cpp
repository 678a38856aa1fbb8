// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operators/distinct_places.h"

#include <algorithm>
#include <cmath>

namespace llmtrain {
namespace {

// The probability that none of `chosen` different ones of `all` is among `some` of these.
double missed_probability(double all, double some, double chosen) {
  double missed = 1;
  for (double earlier = 0; earlier < chosen; ++earlier) missed *= std::max(0.0, 1 - some / (all - earlier));
  return missed;
}

double combinations(double all, double chosen) {
  double ways = 1;
  for (double i = 0; i < chosen; ++i) ways *= (all - i) / (i + 1);
  return ways;
}

// Places that a token goes to where each has whole groups: over how many of them are among the token's.
double places_of_groups(double places, double groups, double top_groups, double group_size, double top_k) {
  const double held = groups / places;
  double reached = 0;
  for (double chosen = 1; chosen <= std::min(held, top_groups); ++chosen) {
    const double ways = combinations(held, chosen) * combinations(groups - held, top_groups - chosen);
    reached += ways * (1 - missed_probability(top_groups * group_size, chosen * group_size, top_k));
  }
  return places * reached / combinations(groups, top_groups);
}

}  // namespace

double distinct_share(const MixtureOfExpertsRecipe& moe, double places) {
  const auto experts = static_cast<double>(moe.experts), top_k = static_cast<double>(moe.top_k);
  const auto groups = static_cast<double>(moe.groups), top_groups = static_cast<double>(moe.top_groups);
  const double place = experts / places;
  if (moe.top_groups < moe.groups && std::fmod(groups, places) == 0)
    return places_of_groups(places, groups, top_groups, experts / groups, top_k) / top_k;
  if (moe.top_groups < moe.groups && std::fmod(places, groups) == 0) {
    const double reached = top_groups * places / groups;
    return reached * (1 - missed_probability(reached * place, place, top_k)) / top_k;
  }
  return places * (1 - missed_probability(experts, place, top_k)) / top_k;
}

}  // namespace llmtrain

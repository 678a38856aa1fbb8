// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/accuracy/verdict.h"

#include <cmath>

namespace llmtrain {
namespace {

// Times of plans that take equally long differ by their rounding, which must not choose among them.
constexpr double rounding = 1e-9;

template <class Allowed>
std::optional<std::size_t> fastest(const std::vector<Contender>& contenders, Allowed allowed) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < contenders.size(); ++i)
    if (allowed(contenders[i]) && (!best || contenders[i].seconds < (1 - rounding) * contenders[*best].seconds))
      best = i;
  return best;
}

}  // namespace

MemoryVerdict memory_verdict(double bytes, double limit, const std::optional<PlanError>& error) {
  // Without a stated limit nothing can be said against a plan.
  if (limit <= 0) return MemoryVerdict::fits;
  if (error && std::abs(bytes / limit - 1) < error->error) return MemoryVerdict::tight;
  return bytes <= limit ? MemoryVerdict::fits : MemoryVerdict::does_not_fit;
}

std::optional<std::size_t> first_choice(const std::vector<Contender>& contenders) {
  const auto best = fastest(contenders, [](const Contender&) { return true; });
  if (!best || contenders[*best].verdict != MemoryVerdict::tight || !contenders[*best].step_error) return best;
  const auto roomy = fastest(contenders, [](const Contender& each) { return each.verdict == MemoryVerdict::fits; });
  const double about_as_fast = (1 + contenders[*best].step_error->error) * contenders[*best].seconds;
  return roomy && contenders[*roomy].seconds <= about_as_fast ? roomy : best;
}

}  // namespace llmtrain

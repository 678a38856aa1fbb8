// SPDX-License-Identifier: Apache-2.0
#include "parallel/schedule/weight_holds.h"

#include <algorithm>
#include <array>

namespace llmtrain {

namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);

// A group of micro-batches in one direction, which needs its stage gathered from its first pass to its last.
struct Use {
  std::int32_t stage = 0;
  std::size_t first = 0;
  std::size_t last = 0;
};

std::vector<Use> list_uses(const std::vector<Pass>& passes, std::int32_t group) {
  std::vector<Use> uses;
  // 1F1B alternates directions, so a use continues across passes of the other direction.
  std::array<std::size_t, 2> current = {none, none};  // by direction
  for (std::size_t i = 0; i < passes.size(); ++i) {
    std::size_t& use = current[static_cast<std::size_t>(passes[i].direction)];
    // The same group of micro-batches: micro ÷ group identifies it.
    const bool continues = use != none && uses[use].stage == passes[i].stage &&
                           passes[uses[use].first].micro / group == passes[i].micro / group;
    if (!continues) {
      use = uses.size();
      uses.push_back({passes[i].stage, i, i});
    }
    uses[use].last = i;
  }
  return uses;
}

}  // namespace

std::vector<WeightHold> hold_weights(const std::vector<Pass>& passes, std::int32_t group) {
  std::vector<WeightHold> holds;
  std::array<std::size_t, 2> buffers = {none, none};  // the last hold in each of the two buffers
  const auto free_from = [&](std::size_t hold) { return hold == none ? 0 : holds[hold].free_after + 1; };
  // In order of first use, so that each gather starts as early as the buffers allow.
  for (const Use& use : list_uses(passes, group)) {
    std::size_t same = none;  // the last hold of the stage
    for (const std::size_t hold : buffers)
      if (hold != none && holds[hold].stage == use.stage && free_from(hold) > free_from(same)) same = hold;
    // Still held when the use begins (the other direction): keep it instead of gathering a second copy.
    if (free_from(same) > use.first) {
      holds[same].free_after = std::max(holds[same].free_after, use.last);
      continue;
    }
    // The buffer that becomes free first allows the earliest prefetch; a stage's own last hold must have ended as well,
    // because the memory of its gathered weights exists once.
    std::size_t& buffer = free_from(buffers[0]) <= free_from(buffers[1]) ? buffers[0] : buffers[1];
    const std::size_t gather = std::max(free_from(buffer), free_from(same));
    buffer = holds.size();
    holds.push_back({use.stage, gather, use.first, use.last});
  }
  return holds;
}

}  // namespace llmtrain

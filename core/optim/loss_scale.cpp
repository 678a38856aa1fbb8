// SPDX-License-Identifier: Apache-2.0
#include "core/optim/loss_scale.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace llmtrain {
namespace {

constexpr float largest_scale = 0x1p24F;

bool computes_in_fp16(const PrecisionRecipe& precision) {
  return precision.compute == DataType::fp16 || precision.gradients == DataType::fp16;
}

bool is_count(float number) { return number >= 0 && number <= 0x1p24F && std::floor(number) == number; }

}  // namespace

LossScale::LossScale(const PrecisionRecipe& precision)
    : is_dynamic_(computes_in_fp16(precision)), growth_steps_(static_cast<double>(precision.loss_scale.growth_steps)) {
  if (is_dynamic_) state_.value = static_cast<float>(precision.loss_scale.initial);
}

void LossScale::set_state(const State& state) {
  if (!is_dynamic_) return;
  int exponent = 0;
  const bool is_power = std::frexp(state.value, &exponent) == 0.5F;
  if (!is_power || state.value < 1 || state.value > largest_scale || !is_count(state.steps) || !is_count(state.skipped))
    throw Error(
        ExitCode::bad_data,
        fmt::format("loss_scale: holds {}, {} and {}; must be a power of two up to 2^24 and two numbers of steps",
                    state.value, state.steps, state.skipped));
  state_ = state;
}

std::int64_t LossScale::updates(std::int64_t step) const {
  return step + 1 - static_cast<std::int64_t>(state_.skipped);
}

bool LossScale::update(bool has_overflowed) {
  if (!is_dynamic_) return false;
  if (has_overflowed) {
    const bool falls = state_.value > 1;
    state_ = {std::max(1.0F, state_.value / 2), 0, state_.skipped + 1};
    return falls;
  }
  if (++state_.steps >= growth_steps_) state_ = {std::min(largest_scale, state_.value * 2), 0, state_.skipped};
  return false;
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "parallel/plan/accuracy/accuracy.h"

namespace llmtrain {

// What a plan's memory says of the run, given how far plans are from measurements.
enum class MemoryVerdict {
  fits,
  tight,  // planned so near to the limit, on either side, that the error of plans decides
  does_not_fit,
};

constexpr std::array<std::string_view, 3> verdict_words = {"fits", "tight", "does not fit"};
constexpr std::string_view verdict_word(MemoryVerdict verdict) {
  return verdict_words[static_cast<std::size_t>(verdict)];
}

// Whether a rank fits that is planned to need `bytes`. A limit of 0 is none. Tight: bytes within limit · (1 ± error);
// nothing is where the error is not known.
MemoryVerdict memory_verdict(double bytes, double limit, const std::optional<PlanError>& error);

// A plan that fits or is tight, among others.
struct Contender {
  double seconds = 0;  // what it takes for the same work
  MemoryVerdict verdict{};
  std::optional<PlanError> step_error;
};

// Which of several plans to recommend: the fastest, the first of equals; but where that one is tight, the fastest that
// fits if the difference is within the error of the tight one's time. None of none.
std::optional<std::size_t> first_choice(const std::vector<Contender>& contenders);

}  // namespace llmtrain

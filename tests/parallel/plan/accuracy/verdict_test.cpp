// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/accuracy/verdict.h"

#include <catch2/catch.hpp>

namespace llmtrain {
namespace {

const PlanError tenth{.error = 0.1, .rows = 10, .program = "p"};

Contender contender(double seconds, MemoryVerdict verdict, std::optional<PlanError> step_error = tenth) {
  return {.seconds = seconds, .verdict = verdict, .step_error = std::move(step_error)};
}

TEST_CASE("memory is tight within the error of the limit, on both sides") {
  CHECK(memory_verdict(89, 100, tenth) == MemoryVerdict::fits);
  CHECK(memory_verdict(91, 100, tenth) == MemoryVerdict::tight);
  CHECK(memory_verdict(100, 100, tenth) == MemoryVerdict::tight);
  CHECK(memory_verdict(109, 100, tenth) == MemoryVerdict::tight);
  CHECK(memory_verdict(111, 100, tenth) == MemoryVerdict::does_not_fit);
}

TEST_CASE("without a known error the limit decides, without a limit everything fits") {
  CHECK(memory_verdict(100, 100, std::nullopt) == MemoryVerdict::fits);
  CHECK(memory_verdict(101, 100, std::nullopt) == MemoryVerdict::does_not_fit);
  CHECK(memory_verdict(1e15, 0, tenth) == MemoryVerdict::fits);
}

TEST_CASE("the fastest plan comes first, unless it is tight and one with room is about as fast") {
  CHECK_FALSE(first_choice({}));
  CHECK(first_choice({contender(3, MemoryVerdict::fits), contender(2, MemoryVerdict::fits),
                      contender(2, MemoryVerdict::fits)}) == 1U);
  CHECK(first_choice({contender(0.3, MemoryVerdict::fits), contender(0.3 - 1e-16, MemoryVerdict::fits)}) == 0U);
  CHECK(first_choice({contender(1, MemoryVerdict::tight), contender(1.05, MemoryVerdict::tight)}) == 0U);
  CHECK(first_choice({contender(1, MemoryVerdict::tight), contender(1.2, MemoryVerdict::fits)}) == 0U);
  CHECK(first_choice({contender(1, MemoryVerdict::tight), contender(1.09, MemoryVerdict::fits),
                      contender(1.08, MemoryVerdict::fits)}) == 2U);
  CHECK(first_choice({contender(1, MemoryVerdict::tight, std::nullopt), contender(1.01, MemoryVerdict::fits)}) == 0U);
}

}  // namespace
}  // namespace llmtrain

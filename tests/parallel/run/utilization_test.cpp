// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/utilization.h"

#include <catch2/catch.hpp>

namespace llmtrain {
namespace {

TEST_CASE("no step has an MFU above 1, and the fastest step is what later ones are compared with") {
  Utilization utilization(100);
  CHECK(utilization.of_step(25) == 0.25);
  CHECK(utilization.of_step(247) == 1);
  CHECK(utilization.of_step(123.5) == 0.5);
  CHECK(utilization.of_step(250) == 1);
}

}  // namespace
}  // namespace llmtrain

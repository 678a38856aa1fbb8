// SPDX-License-Identifier: Apache-2.0
#include "core/optim/loss_scale.h"

#include <catch2/catch.hpp>
#include <limits>

namespace llmtrain::test {
namespace {

PrecisionRecipe fp16(double initial, std::int64_t growth_steps) {
  PrecisionRecipe precision;
  precision.compute = DataType::fp16;
  precision.loss_scale = {initial, growth_steps};
  return precision;
}

}  // namespace

TEST_CASE("the loss scale falls with each overflow and grows after steps without") {
  LossScale scale(fp16(8, 3));
  CHECK(scale.value() == 8);
  CHECK(scale.update(true));
  CHECK(scale.value() == 4);
  for (const double expected : {4, 4, 8, 8, 8, 16}) {
    CHECK_FALSE(scale.update(false));
    CHECK(scale.value() == expected);
  }
  scale.update(false);
  CHECK(scale.state().steps == 1);
  // Steps without overflow count anew after one.
  CHECK(scale.update(true));
  CHECK((scale.value() == 8 && scale.state().steps == 0));
  // Two of the nine steps had no update.
  CHECK(scale.updates(8) == 7);
}

TEST_CASE("the loss scale stays between 1 and 2^24") {
  LossScale low(fp16(2, 1));
  CHECK(low.update(true));
  CHECK_FALSE(low.update(true));
  CHECK(low.value() == 1);
  LossScale high(fp16(0x1p23, 1));
  for (int step = 0; step < 3; ++step) high.update(false);
  CHECK(high.value() == 0x1p24);
}

TEST_CASE("a loss scale goes on from a checkpoint's") {
  LossScale scale(fp16(8, 3));
  scale.set_state({1024, 2, 5});
  CHECK(scale.value() == 1024);
  scale.update(false);
  CHECK((scale.value() == 2048 && scale.updates(9) == 5));
}

TEST_CASE("a loss scale that no run has is refused") {
  const float infinity = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();
  for (const LossScale::State& state : {LossScale::State{1000, 0, 0},
                                        {0.5F, 0, 0},
                                        {0, 0, 0},
                                        {-2, 0, 0},
                                        {0x1p25F, 0, 0},
                                        {infinity, 0, 0},
                                        {none, 0, 0},
                                        {8, -1, 0},
                                        {8, 0, 0.5F},
                                        {8, 0, none}}) {
    LossScale scale(fp16(8, 3));
    CHECK_THROWS_WITH(scale.set_state(state), Catch::StartsWith("loss_scale: holds "));
    CHECK(scale.value() == 8);
  }
}

TEST_CASE("without fp16 there is no loss scale") {
  PrecisionRecipe precision;
  precision.compute = DataType::bf16;
  LossScale scale(precision);
  scale.set_state({1024, 2, 1});
  CHECK_FALSE(scale.is_dynamic());
  CHECK_FALSE(scale.update(true));
  CHECK((scale.value() == 1 && scale.updates(4) == 5));
  precision.gradients = DataType::fp16;
  CHECK(LossScale(precision).is_dynamic());
}

}  // namespace llmtrain::test

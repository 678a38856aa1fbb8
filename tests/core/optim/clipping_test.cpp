// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "core/optim/optimizer.h"

namespace llmtrain {
namespace {

void check_segments(const std::vector<OptimizerSegment>& got, const std::vector<OptimizerSegment>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("segment " << i);
    CHECK(got[i].begin == expected[i].begin);
    CHECK(got[i].end == expected[i].end);
    CHECK(got[i].decays == expected[i].decays);
  }
}

}  // namespace

// torch.nn.utils.clip_grad_norm_: min(1, clip ÷ (norm + 1e-6)).
TEST_CASE("a gradient is brought to the norm that is allowed, and a smaller one left alone") {
  CHECK(clipping_coefficient(0.5, 1) == 1);
  CHECK(clipping_coefficient(0, 1) == 1);
  CHECK(clipping_coefficient(4, 1) == Approx(1 / 4.000001).epsilon(1e-12));
  CHECK(clipping_coefficient(4, 0.5) == Approx(0.5 / 4.000001).epsilon(1e-12));
  CHECK(clipping_coefficient(1e-3, 1e-4) == Approx(1e-4 / 1.001e-3).epsilon(1e-12));
  for (const double norm : {0.1, 1.0, 3.0, 1e4})
    for (const double clip : {0.3, 1.0, 5.0}) CHECK(norm * clipping_coefficient(norm, clip) <= clip);
}

TEST_CASE("clipping is off at 0") {
  CHECK(clipping_coefficient(1e9, 0) == 1);
  CHECK(clipping_coefficient(0, 0) == 1);
}

// One coefficient for all: the direction stays, the norm becomes the allowed one.
TEST_CASE("what is clipped by the norm of all is learnt at that norm") {
  const at::Tensor gradients = at::arange(1, 9, at::kFloat);
  const double norm = gradients.norm().item<double>(), coefficient = clipping_coefficient(norm, 2);
  const OptimizerRecipe recipe{.beta1 = 0, .beta2 = 0, .eps = 1e-8, .weight_decay = 0};
  const at::Tensor weights = at::zeros({8});
  const auto optimizer = make_optimizer(recipe, {{0, 3, true}, {3, 8, false}}, [](Moment) { return at::zeros({8}); });
  optimizer->update({weights, gradients, std::nullopt, 0.1, coefficient, 1});
  const at::Tensor m = optimizer->states().front().values;
  CHECK(m.norm().item<double>() == Approx(2).epsilon(1e-5));
  CHECK((m * (norm / 2) - gradients).abs().max().item<double>() < 1e-5);
}

TEST_CASE("segments join where they touch and agree") {
  check_segments(merge_segments({{0, 4, true}, {4, 9, true}, {9, 12, false}, {12, 13, false}, {13, 20, true}}),
                 {{0, 9, true}, {9, 13, false}, {13, 20, true}});
  check_segments(merge_segments({{0, 4, true}, {5, 9, true}}), {{0, 4, true}, {5, 9, true}});
  check_segments(merge_segments({}), {});
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
// Gradients of bodies against central differences of their own forward in float64.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "core/body/body_writer.h"
#include "tests/core/body/body_cases.h"

namespace llmtrain::body::test {
namespace {

constexpr double shift = 1e-5;

double weighted(const Body& body, const GivenTensors& given, const at::Tensor& weights, const BodyPass& pass) {
  return (values_of(body, given, pass)[0] * weights).sum().item<double>();
}

void check_slopes(const Body& body, GivenTensors given, const BodyPass& pass = {}) {
  const at::Tensor weights = random_tensor(body.shape_of(body.outputs[0]));
  const Passes passes = passes_of(run_of(body), given, {weights}, pass);
  for (const auto& of_tensor : passes.gradients) {
    const TensorId id = of_tensor.first;
    INFO(body.tensors[id].name);
    const at::Tensor kept = given.tensors.at(id), direction = random_tensor(kept.sizes());
    const auto at_shift = [&](double distance) {
      given.tensors.at(id) = kept + distance * direction;
      return weighted(body, given, weights, pass);
    };
    const double slope = (at_shift(shift) - at_shift(-shift)) / (2 * shift);
    given.tensors.at(id) = kept;
    // The third derivative times shift², and rounding ÷ shift.
    CHECK(std::abs((of_tensor.second * direction).sum().item<double>() - slope) <= 1e-7 * (1 + std::abs(slope)));
  }
}

}  // namespace

TEST_CASE("gradients of bodies are the slopes of what they compute") {
  for (const std::vector<BodyCase>& cases : {primitive_cases(), composed_cases()})
    for (const BodyCase& of : cases) {
      INFO(of.name);
      const Body body = of.make();
      check_slopes(body, GivenTensors(body, of.fields(body)));
    }
}

TEST_CASE("dropout's gradient has the mask of its values, which tells steps, sites and samples apart") {
  const auto body_of = [](const std::string& name, std::int64_t rows) {
    BodyWriter w;
    const AxisId t = w.axis("t", rows), h = w.axis("h", 50);
    w.output(w.named(w.dropout(0.25, w.input("x", {t, h})), name));
    return w.take();
  };
  const Body body = body_of("drop", 40);
  const BodyPass pass{.seed = 3, .step = 5, .first_sample = 7};
  check_slopes(body, GivenTensors(body, {}), pass);

  GivenTensors ones(body, {});
  ones.tensors[0] = at::ones({40, 50}, at::kDouble);
  const at::Tensor kept = values_of(body, ones, pass)[0];
  CHECK(((kept == 0) | (kept == 1 / 0.75)).all().item<bool>());
  // 2,000 elements: six standard deviations.
  CHECK(std::abs((kept == 0).to(at::kDouble).mean().item<double>() - 0.25) < 0.06);
  CHECK(at::equal(values_of(body, ones, {.trains = false})[0], ones.tensors[0]));
  CHECK_FALSE(at::equal(values_of(body, ones, {.seed = 3, .step = 6, .first_sample = 7})[0], kept));
  CHECK_FALSE(at::equal(values_of(body_of("other", 40), ones, pass)[0], kept));
  // Rows that are computed apart drop what they drop together.
  ones.tensors[0] = at::ones({28, 50}, at::kDouble);
  CHECK(at::equal(values_of(body_of("drop", 28), ones, {.seed = 3, .step = 5, .first_sample = 19})[0],
                  kept.narrow(0, 12, 28)));
}

}  // namespace llmtrain::body::test

// SPDX-License-Identifier: Apache-2.0
// What a trainer's steps make of gradients: the schedule's learning rate, the clipped norm and AdamW's formula in
// float64. The first moment tells which gradients the optimizer was given, so nothing here depends on the model.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "tests/parallel/engine/training_setting.h"

namespace llmtrain::test {
namespace {

constexpr double beta1 = 0.8, beta2 = 0.9, eps = 1e-4, peak = 0.01;
constexpr std::int64_t warmup_steps = 4;

// What the model holds, all elements in float64.
struct State {
  at::Tensor weights, m, v;
};

State state_of(const LocalModel& model) {
  REQUIRE(model.units().size() == 1);
  const ShardedParameters& parameters = *model.units().front()->parameters;
  State state{parameters.source().to(at::kDouble), {}, {}};
  for (const OptimizerState& moment : parameters.optimizer_states())
    (moment.name == "m" ? state.m : state.v) = moment.values.to(at::kDouble);
  return state;
}

std::vector<std::string> overrides(double clip_norm) {
  return {"training.optimizer.beta1=" + std::to_string(beta1),
          "training.optimizer.beta2=" + std::to_string(beta2),
          "training.optimizer.eps=" + std::to_string(eps),
          "training.optimizer.weight_decay=0",
          "training.learning_rate.peak=" + std::to_string(peak),
          "training.learning_rate.schedule=\"constant\"",
          "training.learning_rate.warmup_steps=" + std::to_string(warmup_steps),
          "training.clip_norm=" + std::to_string(clip_norm),
          "batch.micro=4"};
}

// The gradients that turned one first moment into the next.
at::Tensor gradients_between(const at::Tensor& before, const at::Tensor& after) {
  return (after - before * beta1) / (1 - beta1);
}

// ‖got − expected‖ ÷ ‖expected‖.
double distance(const at::Tensor& got, const at::Tensor& expected) {
  return ((got - expected).norm() / expected.norm()).item<double>();
}

}  // namespace

TEST_CASE("steps change the weights as AdamW does at the schedule's rates", "[trainer]") {
  const TrainingSetting setting;
  LoneTrainer trainer(setting.recipe(overrides(0)));
  for (std::int64_t t = 1; t <= warmup_steps + 1; ++t) {
    INFO("step " << t);
    const State before = state_of(trainer.model());
    const StepResult step = trainer.step();
    const State after = state_of(trainer.model());
    const at::Tensor gradients = gradients_between(before.m, after.m);
    CHECK(gradients.norm().item<double>() == Approx(step.gradient_norm).epsilon(1e-5));
    CHECK(distance(after.v, before.v * beta2 + gradients.square() * (1 - beta2)) < 1e-5);

    const double rate = peak * std::min(1.0, static_cast<double>(t) / warmup_steps);
    CHECK(step.learning_rate == Approx(rate));
    const auto count = static_cast<double>(t);
    const at::Tensor root = (after.v / (1 - std::pow(beta2, count))).sqrt() + eps;
    const at::Tensor change = after.m / (1 - std::pow(beta1, count)) / root * -rate;
    // The change of an fp32 weight is rounded to the weight's last digit.
    CHECK(distance(after.weights - before.weights, change) < 1e-4);
  }
}

TEST_CASE("the optimizer is given gradients of the norm that clip_norm allows", "[trainer]") {
  const TrainingSetting setting;
  const double allowed = GENERATE(0.01, 1000.0);
  LoneTrainer trainer(setting.recipe(overrides(allowed)));
  for (int i = 0; i < 3; ++i) {
    const at::Tensor before = state_of(trainer.model()).m;
    const double norm = trainer.step().gradient_norm;
    const double given = gradients_between(before, state_of(trainer.model()).m).norm().item<double>();
    CHECK(norm > 0.1);
    CHECK(given == Approx(std::min(norm, allowed)).epsilon(1e-3));
  }
}

}  // namespace llmtrain::test

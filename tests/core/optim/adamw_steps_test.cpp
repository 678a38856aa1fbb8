// SPDX-License-Identifier: Apache-2.0
// The optimizer over flat memory against its formula in float64, element by element.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/optim/optimizer.h"

namespace llmtrain {
namespace {

// Between those that decay lie some that do not, and 5 elements at the end belong to nobody.
constexpr std::int64_t elements = 60;
const std::vector<OptimizerSegment> segments{
    {0, 7, false}, {7, 16, true}, {16, 31, true}, {31, 40, false}, {40, 55, true}};

bool decays(std::int64_t i) { return (i >= 7 && i < 31) || (i >= 40 && i < 55); }
bool is_updated(std::int64_t i) { return i < 55; }

// Values at which each of them shows in every step.
OptimizerRecipe recipe() { return {.beta1 = 0.8, .beta2 = 0.9, .eps = 0.05, .weight_decay = 0.3}; }

struct Step {
  double learning_rate;
  double gradient_scale;
};
const std::vector<Step> steps{{0.1, 1}, {0.05, 0.5}, {0.2, 1}, {0.01, 0.125}, {0.1, 1}};

at::Tensor random_values(std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn({elements}, generator, at::kFloat);
}
at::Tensor first_weights() { return random_values(1); }
at::Tensor gradients_of(std::size_t step) { return random_values(100 + step); }

struct Exact {
  std::vector<double> weights, m, v;
};

// Loshchilov and Hutter, arXiv 1711.05101, algorithm 2, with the weight decay times the learning rate as in PyTorch.
Exact exact_steps(const OptimizerRecipe& given, std::size_t count) {
  Exact exact{std::vector<double>(elements), std::vector<double>(elements), std::vector<double>(elements)};
  const at::Tensor start = first_weights();
  for (std::int64_t i = 0; i < elements; ++i) {
    double w = start[i].item<double>(), m = 0, v = 0;
    for (std::size_t k = 0; k < count && is_updated(i); ++k) {
      const double gradient = gradients_of(k)[i].item<double>() * steps[k].gradient_scale;
      m = given.beta1 * m + (1 - given.beta1) * gradient;
      v = given.beta2 * v + (1 - given.beta2) * gradient * gradient;
      const double t = static_cast<double>(k) + 1;
      const double m_hat = m / (1 - std::pow(given.beta1, t)), v_hat = v / (1 - std::pow(given.beta2, t));
      const double decay = decays(i) ? given.weight_decay * w : 0;
      w -= steps[k].learning_rate * (m_hat / (std::sqrt(v_hat) + given.eps) + decay);
    }
    const auto place = static_cast<std::size_t>(i);
    exact.weights[place] = w, exact.m[place] = m, exact.v[place] = v;
  }
  return exact;
}

struct Training {
  explicit Training(const OptimizerRecipe& given)
      : optimizer(make_optimizer(given, segments, [](Moment) { return at::zeros({elements}, at::kFloat); })) {}

  void run(std::size_t first, std::size_t last, at::ScalarType gradient_type = at::kFloat) {
    for (std::size_t k = first; k < last; ++k)
      optimizer->update({weights, gradients_of(k).to(gradient_type), compute_weights, steps[k].learning_rate,
                         steps[k].gradient_scale, static_cast<std::int64_t>(k) + 1});
  }
  at::Tensor state(const std::string& name) const {
    for (const OptimizerState& state : optimizer->states())
      if (state.name == name) return state.values;
    FAIL("AdamW has no state " << name);
    return {};
  }

  at::Tensor weights = first_weights();
  std::optional<at::Tensor> compute_weights;
  std::unique_ptr<Optimizer> optimizer;
};

void check_close(const at::Tensor& got, const std::vector<double>& expected, double tolerance) {
  REQUIRE(got.numel() == static_cast<std::int64_t>(expected.size()));
  for (std::int64_t i = 0; i < got.numel(); ++i) {
    INFO("element " << i);
    CHECK(got[i].item<double>() == Approx(expected[static_cast<std::size_t>(i)]).epsilon(tolerance).margin(tolerance));
  }
}

// Rounding to nearest, ties to even, on the bits.
float rounded_to_bf16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits += 0x7fffU + (bits >> 16U & 1U);
  bits &= 0xffff0000U;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

}  // namespace

TEST_CASE("AdamW's weights and moments are those of its formula, step by step") {
  for (std::size_t count = 1; count <= steps.size(); ++count) {
    INFO(count << " steps");
    Training training(recipe());
    training.run(0, count);
    const Exact exact = exact_steps(recipe(), count);
    check_close(training.weights, exact.weights, 2e-6);
    check_close(training.state("m"), exact.m, 2e-6);
    check_close(training.state("v"), exact.v, 2e-6);
  }
}

TEST_CASE("pieces of the flat memory may be updated one after the other") {
  Training whole(recipe()), pieces(recipe());
  const std::vector<std::int64_t> ends{0, 3, 20, 31, elements};
  for (std::size_t k = 0; k < 3; ++k) {
    whole.run(k, k + 1);
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
      const auto piece = [&](const at::Tensor& flat) { return flat.slice(0, ends[i], ends[i + 1]); };
      pieces.optimizer->update({piece(pieces.weights), piece(gradients_of(k)), std::nullopt, steps[k].learning_rate,
                                steps[k].gradient_scale, static_cast<std::int64_t>(k) + 1, ends[i]});
    }
  }
  CHECK(pieces.weights.equal(whole.weights));
  for (const char* name : {"m", "v"}) CHECK(pieces.state(name).equal(whole.state(name)));
}

TEST_CASE("each of AdamW's constants is read") {
  const auto check = [](const OptimizerRecipe& other) {
    Training training(other);
    training.run(0, 3);
    check_close(training.weights, exact_steps(other, 3).weights, 2e-6);
    Training usual(recipe());
    usual.run(0, 3);
    CHECK((training.weights - usual.weights).abs().max().item<double>() > 1e-3);
  };
  OptimizerRecipe other = recipe();
  SECTION("beta1") { other.beta1 = 0.1; }
  SECTION("beta2") { other.beta2 = 0.3; }
  SECTION("eps") { other.eps = 1e-8; }
  SECTION("weight decay") { other.weight_decay = 0; }
  check(other);
}

// A gradient of zero leaves moments of zero: what moves a weight then is its decay, and nothing else.
TEST_CASE("weights decay by rate times decay, in the segments that do and nowhere else") {
  Training training(recipe());
  const at::Tensor before = training.weights.clone();
  training.optimizer->update({training.weights, at::zeros({elements}), std::nullopt, 0.1, 1, 1});
  for (std::int64_t i = 0; i < elements; ++i) {
    INFO("element " << i);
    const double factor = decays(i) ? 1 - 0.1 * 0.3 : 1;
    CHECK(training.weights[i].item<double>() == Approx(before[i].item<double>() * factor).epsilon(1e-6));
    if (!decays(i)) CHECK(training.weights[i].item<float>() == before[i].item<float>());
  }
}

// Adam divides by the gradient's size: with a small epsilon the first step is the learning rate, whatever the size.
TEST_CASE("the first step's bias corrections undo both averages") {
  OptimizerRecipe plain = recipe();
  plain.eps = 1e-12;
  plain.weight_decay = 0;
  Training training(plain);
  training.run(0, 1);
  const at::Tensor expected = first_weights() - gradients_of(0).sign() * 0.1;
  CHECK((training.weights - expected).slice(0, 0, 55).abs().max().item<double>() < 1e-6);
}

TEST_CASE("a gradient's scale comes before the moments") {
  Training scaled(recipe()), by_hand(recipe());
  scaled.optimizer->update({scaled.weights, gradients_of(0), std::nullopt, 0.1, 0.25, 1});
  by_hand.optimizer->update({by_hand.weights, gradients_of(0) * 0.25, std::nullopt, 0.1, 1, 1});
  CHECK(scaled.weights.equal(by_hand.weights));
  CHECK(scaled.state("m").equal(by_hand.state("m")));
  CHECK(scaled.state("v").equal(by_hand.state("v")));
}

TEST_CASE("the modules' weights are the rounded masters, in every segment and nowhere else") {
  Training training(recipe()), alone(recipe());
  training.compute_weights = at::full({elements}, 77, at::kBFloat16);
  training.run(0, 3);
  alone.run(0, 3);
  CHECK(training.weights.equal(alone.weights));
  for (std::int64_t i = 0; i < elements; ++i) {
    INFO("element " << i);
    const float expected = is_updated(i) ? rounded_to_bf16(training.weights[i].item<float>()) : 77;
    CHECK((*training.compute_weights)[i].item<float>() == expected);
  }
}

// The master takes in steps that are far below the rounding of its copy.
TEST_CASE("masters learn what bf16 could not hold") {
  OptimizerRecipe plain = recipe();
  plain.eps = 1e-12;
  plain.weight_decay = 0;
  Training training(plain);
  training.weights = at::ones({elements});
  training.compute_weights = at::ones({elements}, at::kBFloat16);
  for (std::int64_t k = 1; k <= 40; ++k)
    training.optimizer->update({training.weights, at::ones({elements}), training.compute_weights, 1e-3, 1, k});
  CHECK(training.weights[20].item<double>() == Approx(0.96).epsilon(1e-4));
  CHECK((*training.compute_weights)[20].item<double>() == Approx(0.96).epsilon(4e-3));
}

TEST_CASE("gradients may be rounded") {
  Training training(recipe());
  training.run(0, 1, at::kBFloat16);
  check_close(training.weights, exact_steps(recipe(), 1).weights, 2e-3);
  CHECK_FALSE(training.state("m").equal(at::zeros({elements})));
}

TEST_CASE("states make a new optimizer go on as if the old one had not stopped") {
  Training whole(recipe()), first(recipe()), second(recipe());
  whole.run(0, 5);
  first.run(0, 2);
  REQUIRE(first.optimizer->states().size() == 2);
  second.weights = first.weights.clone();
  for (const char* name : {"m", "v"}) second.state(name).copy_(first.state(name));
  second.run(2, 5);
  CHECK(second.weights.equal(whole.weights));
  CHECK(second.state("m").equal(whole.state("m")));
  CHECK(second.state("v").equal(whole.state("v")));
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
// The kernels of the load-importance loss, run on the processor, against float64: sums, loss and gradient.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/moe/load_importance_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

using llmtrain::test::ExactArray;

// The error of an exponential or of erfc, a sum and a division.
constexpr double bound = 2e-6, deviation = 0.7, scale = 0.125;

struct Shape {
  std::int64_t tokens;
  int experts, choices;
};

// Φ, and its slope.
double distribution(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }
double density(double z) { return std::exp(-z * z / 2) / std::sqrt(8 * std::atan(1.0)); }

struct Case {
  Case(const Shape& s, std::uint64_t seed) : shape(s) {
    std::mt19937 engine{static_cast<std::mt19937::result_type>(seed)};
    logits.fill(engine, 2);
    noisy.fill(engine, 2);
    dlogits.fill(engine);
    for (std::size_t i = 0; i < tokens * k; ++i) chosen[i] = static_cast<std::int64_t>(engine() % experts);
    for (std::size_t i = 0; i < 3; ++i) before[i] = 0.1 * static_cast<double>(i + 1);
  }

  void forward() {
    cuda_load_importance_kernels.sums({.logits = logits.data(),
                                       .noisy = noisy.data(),
                                       .chosen = chosen.data(),
                                       .tokens = shape.tokens,
                                       .experts = shape.experts,
                                       .choices = shape.choices,
                                       .deviation = static_cast<float>(deviation),
                                       .thresholds = thresholds.data(),
                                       .partials = partials.data()},
                                      nullptr);
    cuda_load_importance_kernels.totals(
        {partials.data(), token_pieces(shape.tokens), shape.experts, before.data(), 3, totals.data()}, nullptr);
    cuda_load_importance_kernels.loss({totals.data() + 3, shape.experts, loss.data(), slopes.data()}, nullptr);
  }
  void backward() {
    cuda_load_importance_kernels.backward({.logits = logits.data(),
                                           .thresholds = thresholds.data(),
                                           .chosen = chosen.data(),
                                           .slopes = slopes.data(),
                                           .tokens = shape.tokens,
                                           .experts = shape.experts,
                                           .choices = shape.choices,
                                           .deviation = static_cast<float>(deviation),
                                           .scale = static_cast<float>(scale),
                                           .dlogits = dlogits.data()},
                                          nullptr);
  }
  std::size_t last_of(std::size_t token) const { return static_cast<std::size_t>(chosen[token * k + k - 1]); }
  std::vector<double> probabilities_of(std::size_t token) const {
    std::vector<double> result(experts);
    double sum = 0;
    for (std::size_t e = 0; e < experts; ++e) sum += result[e] = std::exp(logits[token * experts + e]);
    for (double& each : result) each /= sum;
    return result;
  }
  // How far an expert's logit is above the token's threshold, in deviations.
  double distance(std::size_t token, std::size_t expert) const {
    return (logits[token * experts + expert] - noisy[token * experts + last_of(token)]) / deviation;
  }
  bool has_overrun() const {
    for (const Numbers<float>* each : {&logits, &noisy, &dlogits, &thresholds, &slopes})
      if (each->has_overrun()) return true;
    return chosen.has_overrun() || partials.has_overrun() || totals.has_overrun() || loss.has_overrun();
  }

  Shape shape;
  std::size_t tokens = static_cast<std::size_t>(shape.tokens), experts = static_cast<std::size_t>(shape.experts);
  std::size_t k = static_cast<std::size_t>(shape.choices);
  Numbers<float> logits{tokens * experts}, noisy{tokens * experts}, dlogits{tokens * experts};
  Numbers<float> thresholds{tokens}, slopes{2 * experts};
  ExactArray<std::int64_t> chosen{tokens * k};
  ExactArray<double> partials{static_cast<std::size_t>(token_pieces(shape.tokens)) * 2 * experts};
  ExactArray<double> before{3}, totals{3 + 2 * experts}, loss{1};
};

std::vector<double> sums_of(const Case& c) {
  std::vector<double> sums(2 * c.experts);
  for (std::size_t token = 0; token < c.tokens; ++token) {
    const std::vector<double> probabilities = c.probabilities_of(token);
    for (std::size_t e = 0; e < c.experts; ++e) {
      sums[e] += probabilities[e];
      sums[c.experts + e] += distribution(c.distance(token, e));
    }
  }
  return sums;
}

// Half the squared coefficients of variation: half of Σ x² · E ÷ (Σ x)² − 1 each.
double loss_of(const std::vector<double>& sums) {
  double loss = 0;
  const std::size_t experts = sums.size() / 2;
  for (std::size_t begin : {std::size_t{0}, experts}) {
    double sum = 0, squares = 0;
    for (std::size_t e = 0; e < experts; ++e) {
      sum += sums[begin + e];
      squares += sums[begin + e] * sums[begin + e];
    }
    loss += (squares * static_cast<double>(experts) / (sum * sum) - 1) / 2;
  }
  return loss;
}

// d loss ÷ d sums, by differences that are exact to some ten digits.
std::vector<double> slopes_of(const std::vector<double>& sums) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    std::array<std::vector<double>, 2> moved{sums, sums};
    const double step = 1e-5 * (1 + sums[i]);
    moved[0][i] += step, moved[1][i] -= step;
    slopes.push_back((loss_of(moved[0]) - loss_of(moved[1])) / (2 * step));
  }
  return slopes;
}

void check_forward(Case& c) {
  c.forward();
  const std::vector<double> sums = sums_of(c), slopes = slopes_of(sums);
  for (std::size_t i = 0; i < 3; ++i) CHECK(c.totals[i] == c.before[i]);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    wrong += differs(c.totals[3 + i], sums[i], bound);
    wrong += differs(c.slopes[i], slopes[i], bound);
  }
  CHECK(wrong == 0);
  CHECK_FALSE(differs(c.loss[0], loss_of(sums), bound));
}

void check_backward(Case& c) {
  const std::vector<double> given = c.dlogits.copied();
  c.backward();
  std::size_t wrong = 0;
  for (std::size_t token = 0; token < c.tokens; ++token) {
    const std::vector<double> probabilities = c.probabilities_of(token);
    double product = 0, of_threshold = 0, size = 0;
    for (std::size_t e = 0; e < c.experts; ++e) {
      product += probabilities[e] * c.slopes[e];
      of_threshold += density(c.distance(token, e)) / deviation * c.slopes[c.experts + e];
      size += std::abs(c.slopes[e]) + std::abs(c.slopes[c.experts + e]);
    }
    for (std::size_t e = 0; e < c.experts; ++e) {
      double gradient = probabilities[e] * (c.slopes[e] - product);
      gradient += density(c.distance(token, e)) / deviation * c.slopes[c.experts + e];
      if (e == c.last_of(token)) gradient -= of_threshold;
      const double before = given[token * c.experts + e], want = before + scale * gradient;
      wrong += !(std::abs(c.dlogits[token * c.experts + e] - want) <= bound * size + 0x1p-23 * std::abs(before));
    }
  }
  CHECK(wrong == 0);
}

// One expert for each lane and several; fewer tokens than a piece and several pieces; as many experts as there may be.
const std::vector<Shape> shapes{{1, 1, 1},    {200, 8, 2}, {70, 16, 2},  {9, 33, 32}, {130, 64, 6},
                                {20, 300, 8}, {5, 512, 3}, {1500, 5, 1}, {63, 4, 4}};

}  // namespace

TEST_CASE("A GPU's load-importance loss and its gradient are those of float64") {
  const std::uint64_t seed = GENERATE(thread_orders());
  const ThreadOrder order(seed);
  for (const Shape& shape : shapes) {
    INFO(shape.tokens << " tokens, " << shape.choices << " of " << shape.experts);
    Case c(shape, seed);
    check_forward(c);
    check_backward(c);
    CHECK_FALSE(c.has_overrun());
  }
}

TEST_CASE("A rank without tokens adds nothing to importance and load") {
  Case c({0, 12, 2}, 1);
  c.forward();
  for (std::size_t i = 0; i < 24; ++i) CHECK(c.totals[3 + i] == 0);
  c.backward();
  CHECK_FALSE(c.has_overrun());
}

TEST_CASE("A GPU's importance and load have the same bits in every order of threads and blocks") {
  std::vector<std::vector<double>> results;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const ThreadOrder order(seed);
    Case c({300, 40, 2}, 3);
    c.forward();
    c.backward();
    results.emplace_back(c.totals.data(), c.totals.data() + 83);
    results.back().push_back(c.loss[0]);
    for (const double each : c.dlogits.copied()) results.back().push_back(each);
  }
  for (const auto& other : results) CHECK(other == results.front());
}

}  // namespace llmtrain::kernels

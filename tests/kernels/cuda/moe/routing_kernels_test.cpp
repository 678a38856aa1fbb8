// SPDX-License-Identifier: Apache-2.0
// The kernels of routers, run on the processor, against float64: probabilities, gates, sums and gradients; choices bit
// by bit from the probabilities that were stored.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/moe/routing_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

using llmtrain::test::ExactArray;

// The error of a softmax: an exponential, a sum and a division.
constexpr double bound = 1e-6;

struct Shape {
  std::int64_t tokens;
  int experts, choices;
  bool normalizes = true;
  bool keeps_log_sums = true;
  bool is_chosen = false;
};

struct Case {
  explicit Case(const Shape& s) : shape(s) {
    std::mt19937 engine{17};
    logits.fill(engine, 2);
    dgates.fill(engine);
    // Every third token has logits of a few values, many of them equal.
    for (std::size_t i = 0; i < logits.size; ++i)
      if (i / experts % 3 == 1) logits.data()[i] = std::round(logits.data()[i]);
    std::vector<std::int64_t> all(experts);
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t token = 0; token < tokens && s.is_chosen; ++token) {
      std::ranges::shuffle(all, engine);
      for (std::size_t j = 0; j < k; ++j) chosen[token * k + j] = all[j];
    }
    for (std::size_t e = 0; e < experts; ++e) first[e] = static_cast<float>(3 * e + 1);
  }

  void route() {
    cuda_routing_kernels.route({.logits = logits.data(),
                                .tokens = shape.tokens,
                                .experts = shape.experts,
                                .choices = shape.choices,
                                .is_chosen = shape.is_chosen,
                                .probabilities = probabilities.data(),
                                .chosen = chosen.data(),
                                .scores = scores.data(),
                                .gates = shape.normalizes ? gates.data() : nullptr,
                                .log_sums = shape.keeps_log_sums ? log_sums.data() : nullptr,
                                .partials = partials.data()},
                               nullptr);
    cuda_routing_kernels.totals(
        {partials.data(), token_pieces(shape.tokens), shape.experts, ends.data(), totals.data()}, nullptr);
  }
  void backward(bool has_first) {
    cuda_routing_kernels.route_backward({.dgates = dgates.data(),
                                         .probabilities = probabilities.data(),
                                         .chosen = chosen.data(),
                                         .gates = shape.normalizes ? gates.data() : nullptr,
                                         .log_sums = shape.keeps_log_sums ? log_sums.data() : nullptr,
                                         .first = has_first ? first.data() : nullptr,
                                         .log_sum_scale = 0.25F,
                                         .first_scale = 0.125F,
                                         .dlogits = dlogits.data(),
                                         .tokens = shape.tokens,
                                         .experts = shape.experts,
                                         .choices = shape.choices},
                                        nullptr);
  }
  bool has_overrun() const {
    for (const Numbers<float>* each : {&logits, &probabilities, &scores, &gates, &log_sums, &dgates, &dlogits})
      if (each->has_overrun()) return true;
    return chosen.has_overrun() || partials.has_overrun() || totals.has_overrun();
  }

  Shape shape;
  std::size_t tokens = static_cast<std::size_t>(shape.tokens), experts = static_cast<std::size_t>(shape.experts);
  std::size_t k = static_cast<std::size_t>(shape.choices), columns = 3 * experts + 2;
  Numbers<float> logits{tokens * experts}, probabilities{tokens * experts}, dlogits{tokens * experts};
  Numbers<float> scores{tokens * k}, gates{tokens * k}, dgates{tokens * k}, log_sums{tokens};
  ExactArray<std::int64_t> chosen{tokens * k};
  ExactArray<double> partials{static_cast<std::size_t>(token_pieces(shape.tokens)) * columns}, totals{columns + 1};
  ExactArray<float> first{experts};
  ExactArray<int> ends{experts, 5};
};

// The order in which a token's experts are chosen.
std::vector<std::int64_t> order_of(const Case& c, std::size_t token) {
  std::vector<std::int64_t> order(c.experts);
  std::iota(order.begin(), order.end(), 0);
  const float* const row = c.probabilities.data() + token * c.experts;
  std::ranges::stable_sort(order, [row](std::int64_t a, std::int64_t b) { return row[a] > row[b]; });
  return order;
}

std::size_t wrong_of_token(const Case& c, std::size_t token, std::vector<double>& totals) {
  const std::size_t begin = token * c.experts, choice = token * c.k;
  double largest = -INFINITY, sum = 0, of_chosen = 0;
  for (std::size_t e = 0; e < c.experts; ++e) largest = std::max(largest, c.logits[begin + e]);
  for (std::size_t e = 0; e < c.experts; ++e) sum += std::exp(c.logits[begin + e] - largest);
  std::size_t wrong = 0;
  for (std::size_t e = 0; e < c.experts; ++e) {
    const double probability = std::exp(c.logits[begin + e] - largest) / sum;
    wrong += !(std::abs(c.probabilities[begin + e] - probability) <= bound * probability);
    totals[2 * c.experts + e] += probability;
    totals[3 * c.experts + 2] -= probability * std::log(probability);
  }
  const double log_sum = largest + std::log(sum);
  if (c.shape.keeps_log_sums) {
    wrong += differs(c.log_sums[token], log_sum, bound);
    totals[3 * c.experts] += log_sum * log_sum;
  }
  const std::vector<std::int64_t> order = order_of(c, token);
  for (std::size_t j = 0; j < c.k; ++j) {
    const std::int64_t expert = c.chosen[choice + j];
    if (!c.shape.is_chosen) wrong += expert != order[j];
    const double score = c.probabilities[begin + static_cast<std::size_t>(expert)];
    wrong += c.scores[choice + j] != score;
    of_chosen += score;
    totals[static_cast<std::size_t>(expert)] += j == 0 ? 1 : 0;
    totals[c.experts + static_cast<std::size_t>(expert)] += 1;
  }
  for (std::size_t j = 0; j < c.k && c.shape.normalizes; ++j)
    wrong += differs(c.gates[choice + j], c.scores[choice + j] / of_chosen, bound);
  return wrong;
}

void check_forward(Case& c) {
  c.route();
  std::vector<double> totals(c.columns + 1);
  totals[3 * c.experts + 1] = 5;  // where the experts' rows end
  std::size_t wrong = 0;
  for (std::size_t token = 0; token < c.tokens; ++token) wrong += wrong_of_token(c, token, totals);
  CHECK(wrong == 0);
  for (std::size_t i = 0; i < totals.size(); ++i) {
    INFO("total " << i);
    // Whole numbers have no rounding.
    CHECK_FALSE(differs(c.totals[i], totals[i], i < 2 * c.experts ? 0 : bound));
  }
}

// Σ_e g_e ∂p_e/∂logit + the terms', with the gates' gradient as that of s_j ÷ Σ s.
void check_backward(Case& c, bool has_first) {
  c.backward(has_first);
  std::size_t wrong = 0;
  for (std::size_t token = 0; token < c.tokens; ++token) {
    const std::size_t begin = token * c.experts, choice = token * c.k;
    std::vector<double> gradient(c.experts);
    double sum = 0, product = 0, size = 1;
    for (std::size_t j = 0; j < c.k; ++j) sum += c.scores[choice + j];
    for (std::size_t e = 0; e < c.experts; ++e) gradient[e] = has_first ? 0.125 * static_cast<double>(c.first[e]) : 0;
    for (std::size_t j = 0; j < c.k; ++j) {
      double dscore = c.dgates[choice + j];
      for (std::size_t i = 0; i < c.k && c.shape.normalizes; ++i)
        dscore -= c.dgates[choice + i] * c.scores[choice + i] / sum;
      gradient[static_cast<std::size_t>(c.chosen[choice + j])] += c.shape.normalizes ? dscore / sum : dscore;
    }
    for (std::size_t e = 0; e < c.experts; ++e) {
      product += gradient[e] * c.probabilities[begin + e];
      size += std::abs(gradient[e]);
    }
    const double of_log_sum = c.shape.keeps_log_sums ? 0.25 * c.log_sums[token] : 0;
    for (std::size_t e = 0; e < c.experts; ++e) {
      const double want = c.probabilities[begin + e] * (gradient[e] - product + of_log_sum);
      wrong += !(std::abs(c.dlogits[begin + e] - want) <= bound * size);
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("A GPU routes tokens as float64 does, and of equal probabilities to the lower expert") {
  const ThreadOrder order(GENERATE(thread_orders()));
  // One expert for each lane and several; fewer tokens than a piece and several pieces; all experts chosen.
  const std::vector<Shape> shapes{{1, 1, 1},
                                  {200, 8, 2},
                                  {70, 16, 2, false, false},
                                  {9, 33, 32},
                                  {130, 64, 6, true, false},
                                  {20, 300, 8, false},
                                  {5, 512, 3},
                                  {40, 4, 4},
                                  {90, 24, 3, true, true, true},
                                  {6, 200, 5, false, false, true}};
  for (const Shape& shape : shapes) {
    INFO(shape.tokens << " tokens, " << shape.choices << " of " << shape.experts);
    Case c(shape);
    check_forward(c);
    check_backward(c, false);
    check_backward(c, true);
    CHECK_FALSE(c.has_overrun());
  }
}

TEST_CASE("A GPU chooses different experts for a token whose logits are NaN or infinite") {
  Case c({3, 40, 3});
  for (std::size_t e = 0; e < 40; ++e) {
    c.logits.data()[e] = NAN;
    c.logits.data()[40 + e] = e == 37 ? 1.0F : -INFINITY;
    c.logits.data()[80 + e] = -100 * static_cast<float>(e % 20);
  }
  c.route();
  const std::vector<std::int64_t> got(c.chosen.data(), c.chosen.data() + 9);
  CHECK(got == std::vector<std::int64_t>{0, 1, 2, 37, 0, 1, 0, 20, 1});
  CHECK(std::isnan(c.scores[0]));
  CHECK(c.scores[3] == 1);
  CHECK(c.scores[4] == 0);
}

TEST_CASE("A GPU's sums over tokens have the same bits in every order of threads and blocks") {
  std::vector<std::vector<double>> sums;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const ThreadOrder order(seed);
    Case c({300, 12, 2});
    c.route();
    sums.emplace_back(c.totals.data(), c.totals.data() + c.columns + 1);
  }
  for (const auto& other : sums) CHECK(other == sums.front());
}

TEST_CASE("A GPU says of totals how even a routing is") {
  // Four experts, ten tokens with two choices each, of which one has no row.
  const std::vector<double> given{4, 1, 2, 3, 8, 2, 4, 6, 3.5, 1.5, 2, 3, 40, 19, 10 * std::log(2.0)};
  ExactArray<double> totals{given.size()}, sums{6};
  ExactArray<float> first{4};
  std::ranges::copy(given, totals.data());
  cuda_routing_kernels.summary({totals.data(), 4, 10, 20, sums.data(), first.data()}, nullptr);
  const std::vector<double> want{1, 4.0 / 100 * (14 + 1.5 + 4 + 9), 4, 1 - 19.0 / 20, 8.0 / 5, 0.5};
  for (std::size_t i = 0; i < 6; ++i) {
    INFO("sum " << i);
    CHECK_FALSE(differs(sums[i], want[i], 1e-14));
  }
  for (std::size_t e = 0; e < 4; ++e) CHECK(static_cast<double>(first[e]) == given[e]);
  totals[1] = 7;  // of one expert: choices
  cuda_routing_kernels.summary({totals.data(), 1, 10, 10, sums.data()}, nullptr);
  CHECK(sums[5] == 0);
  CHECK_FALSE(sums.has_overrun());
}

}  // namespace llmtrain::kernels

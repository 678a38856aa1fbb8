// SPDX-License-Identifier: Apache-2.0
// Muon over flat memory against its formula in float64, with the update of each matrix from its singular vectors.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/optim/muon.h"
#include "core/optim/optimizer.h"

namespace llmtrain::test {
namespace {

struct Matrix {
  std::int64_t begin, rows, columns;

  std::int64_t end() const { return begin + rows * columns; }
};
const std::vector<Matrix> matrices{{0, 6, 4}, {24, 3, 8}, {48, 5, 5}};
constexpr std::int64_t stored = 80;  // elements, of which the last belong to no matrix

// A rank that has all of them.
class OwnMatrices final : public WholeMatrices {
 public:
  void for_each(const Read& read, const Transform& transform, const Write& write) const override {
    for (const Matrix& matrix : matrices)
      write(matrix.begin,
            transform(read(matrix.begin, matrix.end()).view({matrix.rows, matrix.columns})).contiguous().flatten());
  }
};

struct Step {
  double learning_rate;
  double gradient_scale;
};
const std::vector<Step> steps{{0.1, 1}, {0.05, 0.5}, {0.2, 0.125}};

at::Tensor random_values(std::uint64_t seed) {
  at::manual_seed(seed);
  return at::randn({stored}, at::kFloat);
}
at::Tensor gradients_of(std::size_t step) { return random_values(100 + step); }

at::Tensor exact_direction(const at::Tensor& mean, std::int64_t iterations) {
  auto [u, s, vh] = at::linalg_svd(mean, false);
  s = s / mean.norm();
  for (std::int64_t i = 0; i < iterations; ++i) s = s * 3.4445 - s.pow(3) * 4.7750 + s.pow(5) * 2.0315;
  return u.matmul(s.unsqueeze(1) * vh);
}

double exact_scale(MuonScale scale, const Matrix& matrix) {
  const auto rows = static_cast<double>(matrix.rows), columns = static_cast<double>(matrix.columns);
  return scale == MuonScale::original ? std::sqrt(std::max(1.0, rows / columns))
                                      : 0.2 * std::sqrt(std::max(rows, columns));
}

at::Tensor exact_weights(const OptimizerRecipe& given, const Matrix& matrix) {
  const auto of = [&](const at::Tensor& flat) {
    return flat.slice(0, matrix.begin, matrix.end()).view({matrix.rows, matrix.columns}).to(at::kDouble);
  };
  at::Tensor weights = of(random_values(1)), mean = at::zeros_like(weights);
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const double mu = given.muon.momentum;
    const at::Tensor gradient = of(gradients_of(k)) * steps[k].gradient_scale;
    mean = mean * mu + gradient * (1 - mu);
    const at::Tensor direction =
        exact_direction(given.muon.nesterov ? mean * mu + gradient * (1 - mu) : mean, given.muon.steps);
    weights = weights * (1 - steps[k].learning_rate * given.weight_decay) -
              direction * (steps[k].learning_rate * exact_scale(given.muon.scale, matrix));
  }
  return weights;
}

struct Trained {
  at::Tensor weights, compute_weights, momentum;
};

Trained train(const OptimizerRecipe& given, at::ScalarType gradients = at::kFloat) {
  const OwnMatrices own;
  int first_moments = 0, others = 0;
  const auto optimizer = make_optimizer(
      given, {},
      [&](Moment moment) {
        ++(moment == Moment::first ? first_moments : others);
        return at::zeros({stored}, at::kFloat);
      },
      &own);
  CHECK(first_moments == 1);
  CHECK(others == 0);
  Trained trained{random_values(1), at::zeros({stored}, at::kBFloat16), {}};
  for (std::size_t k = 0; k < steps.size(); ++k)
    optimizer->update({trained.weights, gradients_of(k).to(gradients), trained.compute_weights, steps[k].learning_rate,
                       steps[k].gradient_scale, static_cast<std::int64_t>(k) + 1});
  REQUIRE(optimizer->states().size() == 1);
  CHECK(optimizer->states().front().name == "m");
  trained.momentum = optimizer->states().front().values;
  return trained;
}

OptimizerRecipe recipe(const MuonRecipe& muon) {
  OptimizerRecipe recipe{.name = OptimizerKind::muon, .weight_decay = 0.3};
  recipe.muon = muon;
  return recipe;
}

}  // namespace

TEST_CASE("Muon's steps are its formula's, of each matrix by itself", "[optim]") {
  for (const bool nesterov : {true, false}) {
    for (const MuonScale scale : {MuonScale::match_rms_adamw, MuonScale::original}) {
      for (const std::int64_t iterations : {5, 2}) {
        const OptimizerRecipe given =
            recipe({.momentum = 0.8, .nesterov = nesterov, .steps = iterations, .scale = scale});
        const Trained trained = train(given);
        for (const Matrix& matrix : matrices) {
          INFO(matrix.rows << " x " << matrix.columns << ", nesterov " << nesterov);
          const at::Tensor weights =
              trained.weights.slice(0, matrix.begin, matrix.end()).view({matrix.rows, matrix.columns});
          // fp32, whose rounding errors the iteration scales by up to 485.
          CHECK((weights - exact_weights(given, matrix)).abs().max().item<double>() < 2e-4);
        }
        const at::Tensor own = trained.weights.slice(0, 0, matrices.back().end());
        CHECK(trained.compute_weights.slice(0, 0, own.numel()).equal(own.to(at::kBFloat16)));
      }
    }
  }
}

TEST_CASE("Muon's momentum is a mean of clipped gradients in fp32", "[optim]") {
  const Trained trained = train(recipe({.momentum = 0.8}), at::kBFloat16);
  at::Tensor mean = at::zeros({stored}, at::kDouble);
  for (std::size_t k = 0; k < steps.size(); ++k)
    mean = mean * 0.8 + gradients_of(k).to(at::kBFloat16).to(at::kDouble) * (0.2 * steps[k].gradient_scale);
  CHECK((trained.momentum - mean).abs().max().item<double>() < 1e-6);
}

TEST_CASE("elements of no matrix stay", "[optim]") {
  const Trained trained = train(recipe({}));
  CHECK(trained.weights.slice(0, matrices.back().end()).equal(random_values(1).slice(0, matrices.back().end())));
}

TEST_CASE("Muon's updates are as large as AdamW's, or as first published", "[optim]") {
  CHECK(muon_scale(MuonScale::match_rms_adamw, 1024, 256) == Approx(0.2 * 32));
  CHECK(muon_scale(MuonScale::match_rms_adamw, 256, 1024) == Approx(0.2 * 32));
  CHECK(muon_scale(MuonScale::original, 1024, 256) == Approx(2));
  CHECK(muon_scale(MuonScale::original, 256, 1024) == Approx(1));
}

}  // namespace llmtrain::test

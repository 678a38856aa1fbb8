// SPDX-License-Identifier: Apache-2.0
#include "kernels/muon/orthogonalize.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdint>

#include "tests/kernels/orthogonalized.h"

namespace llmtrain::kernels {
namespace {

struct Shape {
  std::int64_t rows, columns;
};

}  // namespace

TEST_CASE("singular values go through the polynomial, and vectors stay", "[orthogonalize]") {
  at::manual_seed(5);
  for (const Shape& shape : {Shape{24, 24}, {7, 33}, {33, 7}, {64, 48}, {1, 9}, {9, 1}, {1, 1}}) {
    INFO(shape.rows << " x " << shape.columns);
    const at::Tensor matrix = at::randn({shape.rows, shape.columns}, at::kFloat) * 1e-3;
    for (const std::int64_t steps : {1, 5}) {
      const at::Tensor expected = orthogonalized(matrix, steps);
      // Each step scales small singular values, and the rounding errors among them, by up to 3.4.
      CHECK(error_of_largest(orthogonalize(matrix, steps, at::kFloat), expected) < 2e-4);
      CHECK(error_of_largest(orthogonalize(matrix.to(at::kDouble), steps, at::kDouble), expected) < 1e-12);
      // Eight bits, whose errors grow likewise.
      CHECK(error_of_largest(orthogonalize(matrix, steps, at::kBFloat16), expected) < 0.2);
    }
  }
}

TEST_CASE("the result is nearly orthogonal, whatever the size of the matrix", "[orthogonalize]") {
  at::manual_seed(6);
  const at::Tensor matrix = at::randn({40, 60}, at::kFloat);
  for (const double size : {1e-6, 1.0, 1e12}) {
    const at::Tensor values =
        std::get<1>(at::linalg_svd(orthogonalize(matrix * size, 5, at::kFloat).to(at::kDouble), false));
    CHECK(values.min().item<double>() > 0.6);
    CHECK(values.max().item<double>() < 1.3);
  }
  CHECK(orthogonalize(at::zeros({4, 6}), 5, at::kFloat).equal(at::zeros({4, 6})));
}

TEST_CASE("the matrix keeps its values, and equal ones give equal bits", "[orthogonalize]") {
  at::manual_seed(7);
  const at::Tensor matrix = at::randn({48, 20}, at::kFloat), copy = matrix.clone();
  const at::Tensor first = orthogonalize(matrix, 5, at::kFloat).contiguous();
  CHECK(matrix.equal(copy));
  CHECK(first.equal(orthogonalize(copy, 5, at::kFloat)));
}

}  // namespace llmtrain::kernels

// SPDX-License-Identifier: Apache-2.0
// A sparse Gaussian process against the definition of its bound, with matrices of all points, and autograd.
#include "core/body/families/gaussian_process.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "core/body/passes/chunking.h"
#include "tests/core/body/body_cases.h"

namespace llmtrain::body::test {
namespace {

constexpr std::int64_t process_points = 23;
const GaussianProcess process{.inducing = 5, .features = 3, .jitter = 0.01};

// log N(y; 0, Q + 1/β) − β/2·tr(K − Q) with Q = K(x, z)·(K(z, z) + jitter)⁻¹·K(z, x), of a point and negated, but for
// the constant.
at::Tensor expected_loss(const std::vector<at::Tensor>& t) {
  const at::Tensor &x = t[0], &y = t[1], &z = t[2];
  const at::Tensor inverse_lengths = t[3].exp(), variance = t[4].exp(), precision = t[5].exp();
  const auto covariances = [&](const at::Tensor& one, const at::Tensor& other) {
    const at::Tensor differences = (one.unsqueeze(1) - other.unsqueeze(0)) * inverse_lengths;
    return variance * (differences.square().sum(-1) * -0.5).exp();
  };
  const auto one = [](std::int64_t n) { return at::eye(n, at::kDouble); };
  const at::Tensor crossed = covariances(x, z);
  const at::Tensor among = covariances(z, z) + process.jitter * one(process.inducing);
  const at::Tensor explained = at::matmul(crossed, at::matmul(at::linalg_inv(among), crossed.t()));
  const at::Tensor all = explained + one(process_points) / precision;
  const at::Tensor fit = at::matmul(y, at::matmul(at::linalg_inv(all), y.t())).sum();
  const at::Tensor rest = precision * (variance * static_cast<double>(process_points) - explained.diagonal().sum());
  return (fit + at::logdet(all) + rest) * (0.5 / static_cast<double>(process_points));
}

}  // namespace

TEST_CASE("a sparse Gaussian process' loss and gradients are those of its bound, whole and in pieces") {
  const Body body = sparse_gaussian_process(process, process_points);
  const GivenTensors given(body, {random_tensor({1, process_points})});
  std::vector<at::Tensor> leaves;
  std::vector<std::string> names;
  for (const auto& [id, tensor] : given.tensors) {
    leaves.push_back(tensor.clone().set_requires_grad(body.tensors[id].has_gradient));
    names.push_back(body.tensors[id].name);
  }
  const at::Tensor expected = expected_loss(leaves);
  expected.backward();
  for (const std::int64_t pieces : {1, 2, 3, 7, 23}) {
    INFO(pieces);
    const Body cut = with_least_memory(body, pieces);
    GivenTensors of_cut(cut, {given.all()[1]});
    for (std::size_t i = 0; i < names.size(); ++i) of_cut.tensors.at(cut.tensor_named(names[i])) = given.all()[i];
    const Passes got = passes_of(run_of(cut), of_cut, {at::ones({}, at::kDouble)});
    CHECK(distance(got.values[0], expected) <= 1e-12);
    for (std::size_t i = 0; i < names.size(); ++i) {
      INFO(names[i]);
      if (names[i] != "y") CHECK(distance(got.gradients.at(cut.tensor_named(names[i])), leaves[i].grad()) <= 1e-11);
    }
  }
}

TEST_CASE("a matrix that is not positive definite says so, and what to do") {
  BodyWriter w;
  const AxisId m = w.axis("m", 2), other = w.axis("other", 2);
  const Body body = finished(w, w.cholesky(w.input("matrix", {m, other})));
  GivenTensors given(body, {});
  given.tensors.at(0) = at::ones({2, 2}, at::kDouble);
  try {
    values_of(body, given);
    FAIL("there is no factor");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_data);
    CHECK(std::string(error.what()) ==
          "body: cholesky of matrix [m 2, other 2] to [m 2, other 2]: the leading 2 rows of a matrix are not positive "
          "definite; add more to its diagonal");
  }
}

TEST_CASE("a solve takes columns in parts, and its triangle whole") {
  const Body body = point_cases()[3].make();
  const Step& step = body.steps.back();
  REQUIRE(std::holds_alternative<TriangularSolve>(step.primitive));
  CHECK(axis_use(body, step, body.axis_named("t")) == AxisUse::independent);
  CHECK(axis_use(body, step, body.axis_named("u")) == AxisUse::independent);
  CHECK(axis_use(body, step, body.axis_named("m")) == AxisUse::whole);
  CHECK(axis_use(body, step, body.axis_named("other")) == AxisUse::whole);
}

}  // namespace llmtrain::body::test

// SPDX-License-Identifier: Apache-2.0
// The k smallest elements and what is made of them, against LibTorch's stable sort and autograd.
#include "core/body/families/nearest_neighbours.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <limits>

#include "core/body/passes/chunking.h"
#include "kernels/selection/smallest.h"
#include "tests/core/body/body_cases.h"

namespace llmtrain::body::test {
namespace {

at::Tensor sorted_places(const at::Tensor& x, std::int64_t count) {
  return std::get<1>(at::sort(x, true, -1, false)).narrow(-1, 0, count);
}

const NearestNeighbours classifier{.points = 29, .features = 3, .classes = 4, .neighbours = 6, .temperature = 1.7};

at::Tensor expected_shares(const at::Tensor& queries, const at::Tensor& points, const at::Tensor& labels) {
  const at::Tensor distances = (queries.unsqueeze(1) - points.unsqueeze(0)).square().sum(-1);
  const at::Tensor places = sorted_places(distances.detach(), classifier.neighbours);
  const at::Tensor weights = at::softmax(distances.gather(1, places) / -classifier.temperature, 1);
  return at::einsum("qk,qkc->qc", {weights, at::embedding(labels, places)});
}

Body places_body(std::int64_t rows, std::int64_t extent, std::int64_t count) {
  BodyWriter w;
  const AxisId b = w.axis("b", rows), s = w.axis("s", extent), k = w.axis("k", count);
  return finished(w, w.smallest(w.input("x", {b, s}), k));
}

}  // namespace

TEST_CASE("the smallest elements are those of a stable sort, also equal ones and NaN") {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    // Few numbers, each many times.
    at::Tensor x = (random_tensor({17, 93}) * 2).round().to(type);
    x.select(1, 5).fill_(std::numeric_limits<double>::quiet_NaN());
    x.select(0, 3).fill_(std::numeric_limits<double>::quiet_NaN());
    x.select(1, 40).fill_(-std::numeric_limits<double>::infinity());
    for (const std::int64_t count : {0, 1, 2, 50, 92, 93}) {
      INFO(count << " of " << at::toString(type));
      const at::Tensor places = kernels::smallest_places(x, count);
      CHECK(places.scalar_type() == at::kLong);
      CHECK(at::equal(places, sorted_places(x, count)));
    }
  }
  CHECK(kernels::smallest_places(at::zeros({0, 5}), 2).sizes() == at::IntArrayRef({0, 2}));
}

TEST_CASE("rows are independent of each other where the smallest are found, and what is sorted is not") {
  const Body body = places_body(5, 7, 3);
  const Step& step = body.steps[0];
  CHECK(axis_use(body, step, body.axis_named("b")) == AxisUse::independent);
  CHECK(axis_use(body, step, body.axis_named("s")) == AxisUse::whole);
  CHECK(axis_use(body, step, body.axis_named("k")) == AxisUse::whole);
  CHECK(body.tensors[step.output].is_index);
  CHECK_FALSE(body.tensors[step.output].has_gradient);
  CHECK_THROWS_WITH(places_body(5, 2, 3), Catch::Contains("there are not as many elements"));
}

TEST_CASE("shares by the nearest neighbours, and their gradients, are those of the definition") {
  const Body body = nearest_neighbours(classifier, 11);
  GivenTensors given(body, {random_tensor({classifier.points, classifier.classes})});
  const at::Tensor dy = random_tensor({11, classifier.classes});
  const std::vector<at::Tensor> all = given.all();
  const at::Tensor queries = all[0].clone().set_requires_grad(true), points = all[1].clone().set_requires_grad(true);
  const at::Tensor expected = expected_shares(queries, points, all[2]);
  expected.backward(dy);
  for (const std::int64_t pieces : {1, 2, 3, 7, 11}) {
    INFO(pieces);
    const Body cut = with_least_memory(body, pieces);
    GivenTensors of_cut(cut, {all[2]});
    of_cut.tensors.at(cut.tensor_named("queries")) = all[0];
    of_cut.tensors.at(cut.tensor_named("points")) = all[1];
    const Passes got = passes_of(run_of(cut), of_cut, {dy});
    CHECK(distance(got.values[0], expected) <= 1e-12);
    CHECK(distance(got.gradients.at(cut.tensor_named("queries")), queries.grad()) <= 1e-12);
    CHECK(distance(got.gradients.at(cut.tensor_named("points")), points.grad()) <= 1e-12);
  }
}

TEST_CASE("pieces of queries make no distances of all pairs") {
  const Body body = nearest_neighbours({.points = 1'000, .features = 2, .classes = 2, .neighbours = 3}, 640);
  const Body cut = with_least_memory(body, 64);
  CHECK(pass_memory(cut, Keeping::all, {4, 4}).peak < pass_memory(body, Keeping::all, {4, 4}).peak / 30);
}

}  // namespace llmtrain::body::test

// SPDX-License-Identifier: Apache-2.0
// Chains of element-wise functions that keep their derivative alone: what they make and their gradients are those of
// their functions, and fewer bytes are kept.
#include "core/body/passes/kept_derivatives.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "core/body/body_writer.h"
#include "core/body/passes/chunking.h"
#include "tests/core/body/body_cases.h"
#include "tests/core/body/chunked_bodies.h"

namespace llmtrain::body::test {
namespace {

using Kind = ElementwiseKind;

constexpr ElementBytes of_double{8, 8};
constexpr double activation_bytes = 8 * 7 * 6;  // of a tensor [t, f]

// A network whose activation is these functions, one of another.
Body activated(const std::vector<Kind>& kinds, bool is_read_on_the_way = false) {
  BodyWriter w;
  const AxisId t = w.axis("t", 7), h = w.axis("h", 4), f = w.axis("f", 6);
  const TensorId x = w.input("x", {t, h}), up = w.parameter("up", {f, h}), down = w.parameter("down", {h, f});
  TensorId active = w.product(x, up, {t, f});
  std::vector<TensorId> made;
  for (const Kind kind : kinds) {
    active = kind == Kind::scale ? w.scale(active, 1.5) : w.elementwise(kind, {active});
    made.push_back(active);
  }
  if (is_read_on_the_way) active = w.elementwise(Kind::add, {active, made.front()});
  return finished(w, w.product(active, down, {t, h}));
}

double held_bytes(const Body& body, Keeping keeping) {
  const BodyRun run = run_of(body, keeping);
  const GivenTensors given(body, {});
  const BodyRun::Output output = run.forward(given.of(body, BodyTensor::Role::input), {}, given, {});
  double bytes = 0;
  run.visit(output.kept, [&](const std::string&, const at::Tensor& tensor) {
    bytes += static_cast<double>(tensor.storage().nbytes());
  });
  return bytes;
}

void check_chain(const Body& body, const Body& other, double scale = 1) {
  GivenTensors given(body, {});
  given.tensors.begin()->second.mul_(scale);
  const std::vector<at::Tensor> dy{random_tensor(body.shape_of(body.outputs[0]))};
  const NamedPasses expected = passes_of_cut(body, body, given, dy), got = passes_of_cut(body, other, given, dy);
  CHECK(distance(got.values[0], expected.values[0]) <= 1e-12);
  REQUIRE(got.gradients.size() == expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    INFO("gradient of " << name);
    CHECK(distance(got.gradients.at(name), gradient) <= 1e-12);
  }
}

}  // namespace

TEST_CASE("a chain keeps its derivative alone, of which the gradients are the same") {
  // How many tensors each keeps as functions, but for what the product behind it reads.
  const std::vector<std::pair<std::vector<Kind>, int>> cases = {
      {{Kind::gelu, Kind::silu, Kind::tanh}, 2},
      {{Kind::silu, Kind::log, Kind::scale, Kind::exp}, 2},
      {{Kind::sigmoid, Kind::scale, Kind::gelu_tanh, Kind::relu}, 2},
      {{Kind::relu, Kind::scale, Kind::silu, Kind::tanh, Kind::gelu, Kind::scale}, 3}};
  for (const auto& [kinds, tensors] : cases) {
    INFO("the first of " << kinds.size() << " is " << static_cast<int>(kinds.front()));
    const Body body = activated(kinds), less = with_kept_derivatives(body, of_double);
    CHECK(less.steps.size() == 3);
    CHECK(kept_bytes(body, of_double) - kept_bytes(less, of_double) == (tensors - 1) * activation_bytes);
    for (const Keeping keeping : {Keeping::all, Keeping::costly, Keeping::inputs}) {
      double planned = 0;
      for (const KeptTensor& item : kept_tensors(less))
        if (item.through >= keeping) planned += 8 * item.elements;
      CHECK(held_bytes(less, keeping) == planned);
    }
    if (kinds[1] == Kind::log) continue;  // of what may be below 0
    // Near 0, and where functions are flat.
    for (const double scale : {1.0, 0.0, 1e-9, 40.0}) check_chain(body, less, scale);
    for (const std::int64_t pieces : {2, 3, 7}) check_chain(body, with_least_memory(less, pieces));
  }
}

TEST_CASE("a chain that keeps one tensor, or whose results are read elsewhere, stays as it is") {
  for (const Body& body : {activated({Kind::gelu}), activated({Kind::gelu, Kind::scale}),
                           activated({Kind::sigmoid, Kind::log}), activated({Kind::scale, Kind::scale})})
    CHECK(with_kept_derivatives(body, of_double) == body);
  // What the sum reads is no part of a chain: the two functions behind it are, which keep one tensor.
  const Body read = activated({Kind::relu, Kind::scale, Kind::tanh}, true);
  CHECK(with_kept_derivatives(read, of_double) == read);
  for (const auto& [name, body] : family_bodies()) {
    INFO(name);
    CHECK(with_kept_derivatives(body, of_double) == body);
  }
}

}  // namespace llmtrain::body::test

// SPDX-License-Identifier: Apache-2.0
// Bodies against the same in LibTorch's operators, whose gradients autograd records.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "tests/core/body/body_cases.h"

namespace llmtrain::body::test {
namespace {

// In float64 a few dozen terms are summed in another order; in fp32 the same, of numbers up to a few tens.
double tolerance_of(at::ScalarType type) { return type == at::kDouble ? 1e-13 : 3e-6; }

std::vector<BodyCase> all_cases() {
  std::vector<BodyCase> cases = primitive_cases();
  const std::vector<BodyCase> composed = composed_cases();
  cases.insert(cases.end(), composed.begin(), composed.end());
  return cases;
}

// What autograd finds, in float64.
Passes expected_of(const BodyCase& of, const Body& body, const GivenTensors& given, const at::Tensor& dy) {
  std::vector<at::Tensor> leaves;
  for (const auto& [id, tensor] : given.tensors) {
    const bool is_float = tensor.is_floating_point();
    leaves.push_back(is_float ? tensor.to(at::kDouble).clone().set_requires_grad(body.tensors[id].has_gradient)
                              : tensor);
  }
  const at::Tensor y = of.reference(leaves);
  y.backward(dy.to(at::kDouble));
  Passes expected{{y.detach()}, {}};
  std::size_t place = 0;
  for (const auto& [id, tensor] : given.tensors) {
    if (body.tensors[id].has_gradient) expected.gradients[id] = leaves[place].grad();
    ++place;
  }
  return expected;
}

void check_same(const Body& body, const Passes& got, const Passes& expected, double tolerance) {
  CHECK_FALSE(got.values[0].requires_grad());
  CHECK(distance(got.values[0], expected.values[0]) <= tolerance);
  CHECK(got.gradients.size() == expected.gradients.size());
  for (const auto& [id, gradient] : expected.gradients) {
    INFO(body.tensors[id].name);
    CHECK(distance(got.gradients.at(id), gradient) <= tolerance);
  }
}

// The same elements with gaps between them, and with their axes the other way around in memory.
at::Tensor strided(const at::Tensor& x) {
  std::vector<std::int64_t> back(static_cast<std::size_t>(x.dim()));
  std::iota(back.rbegin(), back.rend(), 0);
  const at::Tensor turned = x.permute(back);
  return at::stack({turned, turned + 1}, x.dim()).select(x.dim(), 0).permute(back);
}

}  // namespace

TEST_CASE("bodies and their gradients equal what LibTorch computes and records") {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (const BodyCase& of : all_cases()) {
      INFO(of.name << " in " << at::toString(type));
      const Body body = of.make();
      GivenTensors given(body, of.fields(body), type);
      const at::Tensor dy = random_tensor(body.shape_of(body.outputs[0]), type);
      const Passes got = passes_of(run_of(body), given, {dy});
      CHECK(got.values[0].scalar_type() == type);
      check_same(body, got, expected_of(of, body, given, dy), tolerance_of(type));
    }
  }
}

TEST_CASE("tensors of any strides are what bodies take") {
  for (const BodyCase& of : all_cases()) {
    INFO(of.name);
    const Body body = of.make();
    GivenTensors given(body, of.fields(body));
    at::Tensor dy = random_tensor(body.shape_of(body.outputs[0]));
    const Passes expected = passes_of(run_of(body), given, {dy});
    for (auto& [id, tensor] : given.tensors) tensor = strided(tensor);
    check_same(body, passes_of(run_of(body), given, {strided(dy)}), expected, 1e-14);
  }
}

TEST_CASE("in 16 bits gradients of parameters are sums in fp32, and others in the type of the activations") {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const BodyCase& of : all_cases()) {
      INFO(of.name << " in " << at::toString(type));
      const Body body = of.make();
      GivenTensors given(body, of.fields(body), type);
      const bool makes_losses = std::holds_alternative<CrossEntropy>(body.steps.back().primitive);
      const at::Tensor dy = random_tensor(body.shape_of(body.outputs[0]), makes_losses ? at::kFloat : type);
      const Passes got = passes_of(run_of(body), given, {dy});
      for (const auto& [id, gradient] : got.gradients)
        CHECK(gradient.scalar_type() == (body.tensors[id].is_given() ? at::kFloat : type));
      // Up to a dozen steps forward and back round to 11 or 8 bits, and a softmax of scores of a few units repeats
      // what these were rounded by.
      check_same(body, got, expected_of(of, body, given, dy), 32 * std::ldexp(1.0, type == at::kHalf ? -11 : -8));
    }
  }
}

TEST_CASE("a body of no rows has gradients of zero") {
  for (const BodyCase& of : composed_cases()) {
    INFO(of.name);
    Body body = of.make();
    for (Axis& axis : body.axes)
      if (axis.name == "t" || axis.name == "rows" || axis.name == "b") axis.extent = 0;
    GivenTensors given(body, of.fields(body));
    const at::Tensor dy = random_tensor(body.shape_of(body.outputs[0]));
    const Passes got = passes_of(run_of(body), given, {dy});
    CHECK(got.values[0].sizes() == dy.sizes());
    for (const TensorId id : body.tensors_of(BodyTensor::Role::parameter)) {
      INFO(body.tensors[id].name);
      CHECK(got.gradients.at(id).abs().sum().item<double>() == 0);
    }
  }
}

}  // namespace llmtrain::body::test

// SPDX-License-Identifier: Apache-2.0
#include "tests/core/body/body_under_test.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

#include <algorithm>

namespace llmtrain::body::test {

at::Tensor random_tensor(at::IntArrayRef shape, at::ScalarType type) {
  static at::Generator generator = at::detail::createCPUGenerator(1234);
  return at::randn(shape, generator, at::kDouble).to(type);
}

GivenTensors::GivenTensors(const Body& body, const std::vector<at::Tensor>& fields, at::ScalarType type) {
  std::size_t field = 0;
  for (TensorId id = 0; id < body.tensors.size(); ++id) {
    const BodyTensor::Role role = body.tensors[id].role;
    if (role == BodyTensor::Role::made) continue;
    tensors[id] = role == BodyTensor::Role::field ? fields.at(field++) : random_tensor(body.shape_of(id), type);
  }
}

void GivenTensors::add_gradient(TensorId parameter, const at::Tensor& gradient) {
  at::Tensor& sum = gradients[parameter];
  sum = sum.defined() ? sum + gradient : gradient.clone();
}

std::vector<at::Tensor> GivenTensors::of(const Body& body, BodyTensor::Role role) const {
  std::vector<at::Tensor> found;
  for (const TensorId id : body.tensors_of(role)) found.push_back(tensors.at(id));
  return found;
}

std::vector<at::Tensor> GivenTensors::all() const {
  std::vector<at::Tensor> found;
  for (const auto& [id, tensor] : tensors) found.push_back(tensor);
  return found;
}

BodyRun run_of(const Body& body, Keeping keeping) {
  return {body, keeping, [](const std::string& name) { return std::hash<std::string>()(name); }};
}

Passes passes_of(const BodyRun& run, GivenTensors& given, const std::vector<at::Tensor>& output_gradients,
                 const BodyPass& pass) {
  using Role = BodyTensor::Role;
  const Body& body = run.body();
  const std::vector<at::Tensor> fields = given.of(body, Role::field);
  BodyRun::Output output = run.forward(given.of(body, Role::input), fields, given, pass);
  given.gradients.clear();
  const std::vector<at::Tensor> inputs = run.backward(output_gradients, std::move(output.kept), fields, given, pass);
  Passes passes{std::move(output.values), given.gradients};
  const std::vector<TensorId> ids = body.tensors_of(Role::input);
  for (std::size_t i = 0; i < ids.size(); ++i) passes.gradients[ids[i]] = inputs[i];
  return passes;
}

std::vector<at::Tensor> values_of(const Body& body, const GivenTensors& given, const BodyPass& pass) {
  using Role = BodyTensor::Role;
  return run_of(body).forward(given.of(body, Role::input), given.of(body, Role::field), given, pass).values;
}

double distance(const at::Tensor& got, const at::Tensor& expected) {
  if (got.sizes() != expected.sizes()) return std::numeric_limits<double>::infinity();
  if (got.numel() == 0) return 0;
  const at::Tensor exact = expected.to(at::kDouble);
  const double largest = (got.to(at::kDouble) - exact).abs().max().item<double>();
  return largest / std::max(1.0, exact.abs().max().item<double>());
}

}  // namespace llmtrain::body::test

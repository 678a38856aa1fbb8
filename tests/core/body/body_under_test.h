// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/body/run/body_run.h"

namespace llmtrain::body::test {

// A body with what it is checked against: the same in LibTorch's operators.
struct BodyCase {
  std::string name;
  std::function<Body()> make;
  // The output, of all tensors that are not made by a step, in the order of the body.
  std::function<at::Tensor(const std::vector<at::Tensor>&)> reference;
  // Makes the fields, in the order of the body.
  std::function<std::vector<at::Tensor>(const Body&)> fields = [](const Body&) { return std::vector<at::Tensor>{}; };
};

// Normal numbers, the same in each process.
at::Tensor random_tensor(at::IntArrayRef shape, at::ScalarType type = at::kDouble);

// What a body is given, by tensor.
class GivenTensors : public BodyParameters {
 public:
  GivenTensors(const Body& body, const std::vector<at::Tensor>& fields, at::ScalarType type = at::kDouble);

  at::Tensor weight(TensorId parameter) const override { return tensors.at(parameter); }
  void add_gradient(TensorId parameter, const at::Tensor& gradient) override;

  std::vector<at::Tensor> of(const Body& body, BodyTensor::Role role) const;
  // All of them, in the order of the body.
  std::vector<at::Tensor> all() const;

  std::map<TensorId, at::Tensor> tensors;
  std::map<TensorId, at::Tensor> gradients;  // of parameters
};

BodyRun run_of(const Body& body, Keeping keeping = Keeping::all);

// Both passes: the outputs, and the gradients by tensor for `output_gradients`.
struct Passes {
  std::vector<at::Tensor> values;
  std::map<TensorId, at::Tensor> gradients;
};
Passes passes_of(const BodyRun& run, GivenTensors& given, const std::vector<at::Tensor>& output_gradients,
                 const BodyPass& pass = {});
std::vector<at::Tensor> values_of(const Body& body, const GivenTensors& given, const BodyPass& pass = {});

// Largest difference ÷ the largest element expected, or 1 where that is smaller; NaN where one is.
double distance(const at::Tensor& got, const at::Tensor& expected);

}  // namespace llmtrain::body::test

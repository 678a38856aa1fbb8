// SPDX-License-Identifier: Apache-2.0
#include "core/graph/presets/described_body.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace llmtrain {
namespace {

using body::Body;
using body::BodyTensor;
using body::TensorId;

constexpr const char* buckets_table = "relative_bias.weight";

bool is_bias(const std::string& name) { return name.ends_with(".bias"); }
bool is_table(const std::string& name) {
  return name == "token.weight" || name == "position.weight" || name == "token_type.weight" || name == "head.weight";
}

// Whether a step of that primitive has the tensor as its weight.
template <class Primitive>
bool is_weight_of(const Body& body, TensorId tensor) {
  return std::ranges::any_of(body.steps, [&](const body::Step& step) {
    return std::holds_alternative<Primitive>(step.primitive) && step.inputs.at(1) == tensor;
  });
}

// Matrices are [output, input], whichever heads their axes count; a convolution's inputs are those of its windows.
std::vector<std::int64_t> stored_shape(const Body& body, TensorId id) {
  const std::vector<std::int64_t> shape = body.shape_of(id);
  const std::string& name = body.tensors[id].name;
  if (is_bias(name) || is_weight_of<body::Norm>(body, id)) return {element_count(shape)};
  const bool is_first_output = name.ends_with("attention.output.weight") || is_weight_of<body::Convolution>(body, id);
  const std::int64_t outputs = is_first_output ? shape.front() : element_count(shape) / shape.back();
  return {outputs, element_count(shape) / outputs};
}

// All weights begin alike, and none decays but matrices and the table of tokens.
Parameter parameter_of(const Body& body, TensorId id, const ModelRecipe& model, bool is_of_layer) {
  const std::string& name = body.tensors[id].name;
  Parameter parameter{.local_name = name, .shape = stored_shape(body, id)};
  if (is_bias(name)) {
    parameter.initialization = Initialization::zeros;
  } else if (is_weight_of<body::Norm>(body, id)) {
    parameter.initialization = Initialization::ones;
  } else {
    parameter.standard_deviation = model.init_std;
    parameter.is_table = is_table(name);
    parameter.is_layer_matrix = is_of_layer && name != buckets_table;
    parameter.decays =
        name != "position.weight" && name != "token_type.weight" && name != "class.weight" && name != buckets_table;
  }
  return parameter;
}

}  // namespace

BodyDescription described(Body body, const ModelRecipe& model, bool is_unit) {
  BodyDescription block{.body = std::move(body), .axes = {}, .is_unit = is_unit};
  block.axes = {block.body.axis_named("sequences"), block.body.axis_named("tokens")};
  for (const TensorId id : block.body.tensors_of(BodyTensor::Role::parameter))
    block.parameters.push_back(parameter_of(block.body, id, model, is_unit));
  return block;
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "core/body/passes/rewriting.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

namespace llmtrain::body {

Uses::Uses(const Body& body)
    : makers_(body.tensors.size()), readers_(body.tensors.size()), is_factor_(body.tensors.size()) {
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    makers_[body.steps[i].output] = i;
    for (const TensorId input : body.steps[i].inputs) ++readers_[input];
  }
  for (const TensorId output : body.outputs) ++readers_[output];
  for (const Step& step : body.steps)
    for (const TensorId input : step.inputs)
      if (std::holds_alternative<Product>(step.primitive) && readers_[input] == 1) is_factor_[input] = true;
}

void Rewriting::replace(const std::vector<std::size_t>& steps) {
  for (const std::size_t step : steps) replaced_[step] = true;
  place_ = steps.back();
}

TensorId Rewriting::make(const Primitive& primitive, std::vector<TensorId> inputs, std::vector<AxisId> axes,
                         const std::string& name) {
  std::size_t number = body_.tensors.size();
  const auto called = [&] { return name + "_" + std::to_string(number); };
  while (std::ranges::find(body_.tensors, called(), &BodyTensor::name) != body_.tensors.end()) ++number;
  const bool are_places = makes_places(primitive);
  const bool has_gradient =
      !are_places && std::ranges::any_of(inputs, [&](TensorId id) -> bool { return body_.tensors[id].has_gradient; });
  body_.tensors.push_back({called(), std::move(axes), BodyTensor::Role::made, has_gradient, are_places});
  make(primitive, std::move(inputs), body_.tensors.size() - 1);
  return body_.tensors.size() - 1;
}

void Rewriting::make(const Primitive& primitive, std::vector<TensorId> inputs, TensorId output) {
  before_[place_].push_back({primitive, std::move(inputs), output});
}

Body Rewriting::done() && {
  std::vector<Step> steps;
  for (std::size_t i = 0; i < replaced_.size(); ++i) {
    std::ranges::move(before_[i], std::back_inserter(steps));
    if (!replaced_[i]) steps.push_back(std::move(body_.steps[i]));
  }
  body_.steps = std::move(steps);
  Body made = in_order_of_steps(std::move(body_));
  for (const Step& step : made.steps) check(made, step);
  return made;
}

Body in_order_of_steps(Body body) {
  std::map<TensorId, TensorId> place;
  std::vector<BodyTensor> tensors;
  const auto keep = [&](TensorId id) {
    place[id] = tensors.size();
    tensors.push_back(std::move(body.tensors[id]));
  };
  // Parameters may have been written between steps: a result comes where its step is told of.
  std::vector<TensorId> results;
  for (const Step& step : body.steps) results.push_back(step.output);
  std::size_t next = 0;
  for (TensorId id = 0; id < body.tensors.size(); ++id) {
    if (body.tensors[id].role != BodyTensor::Role::made)
      keep(id);
    else if (next < results.size())
      keep(results[next++]);
  }
  while (next < results.size()) keep(results[next++]);
  body.tensors = std::move(tensors);
  for (Step& step : body.steps) {
    for (TensorId& input : step.inputs) input = place.at(input);
    step.output = place.at(step.output);
  }
  for (TensorId& output : body.outputs) output = place.at(output);
  return body;
}

}  // namespace llmtrain::body

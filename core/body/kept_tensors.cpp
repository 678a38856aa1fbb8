// SPDX-License-Identifier: Apache-2.0
#include "core/body/kept_tensors.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "core/body/step_shape.h"

namespace llmtrain::body {
namespace {

using Readers = std::vector<std::optional<std::size_t>>;  // by tensor, the first step whose backward reads it

Readers readers_of(const Body& body) {
  const std::vector<TensorId> memory = memory_of(body);
  Readers readers(body.tensors.size());
  const auto read = [&](TensorId tensor, std::size_t step) {
    const TensorId held = memory[tensor];
    if (!body.tensors[held].is_given() && !readers[held]) readers[held] = step;
  };
  for (const TensorId input : body.tensors_of(BodyTensor::Role::input)) read(input, 0);
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    const Step& step = body.steps[i];
    const Kept of_step = kept(body, step);
    for (const std::size_t place : of_step.inputs) read(step.inputs[place], i);
    if (of_step.output) read(step.output, i);
  }
  return readers;
}

bool is_costly(const Body& body, const Step& step) {
  const auto* chunked = std::get_if<Chunked>(&step.primitive);
  if (chunked == nullptr) return work(body, step).forward_flops > 0;
  return std::ranges::any_of(chunked->body->steps, [&](const Step& inner) { return is_costly(*chunked->body, inner); });
}

// By tensor, whether the backward has it or can make it again where a body keeps what is costly; and which of those
// that are read it makes again.
struct Remade {
  std::vector<bool> at_hand, again;
};
Remade remade_of(const Body& body, const Readers& readers) {
  Remade result{std::vector<bool>(body.tensors.size()), std::vector<bool>(body.tensors.size())};
  for (TensorId id = 0; id < body.tensors.size(); ++id)
    result.at_hand[id] = body.tensors[id].role != BodyTensor::Role::made;
  for (const Step& step : body.steps) {
    const bool has_operands = std::ranges::all_of(step.inputs, [&](TensorId id) -> bool { return result.at_hand[id]; });
    const bool can_be_made = has_operands && !is_costly(body, step);
    result.again[step.output] = can_be_made;
    result.at_hand[step.output] = can_be_made || readers[step.output].has_value();
  }
  return result;
}

}  // namespace

std::vector<TensorId> memory_of(const Body& body) {
  std::vector<TensorId> memory(body.tensors.size());
  std::iota(memory.begin(), memory.end(), TensorId{0});
  for (const Step& step : body.steps)
    if (is_view(body, step)) memory[step.output] = memory[step.inputs.front()];
  return memory;
}

std::vector<KeptTensor> kept_tensors(const Body& body) {
  const Readers readers = readers_of(body);
  const Remade remade = remade_of(body, readers);
  std::vector<KeptTensor> all;
  for (TensorId id = 0; id < body.tensors.size(); ++id) {
    if (!readers[id]) continue;
    const BodyTensor& tensor = body.tensors[id];
    KeptTensor item{.name = tensor.name, .tensor = id, .step = *readers[id], .elements = 1};
    for (const AxisId axis : tensor.axes) item.elements *= static_cast<double>(body.axes[axis].extent);
    if (tensor.is_index) item.type = Statistic::Type::index;
    const bool is_input = tensor.role == BodyTensor::Role::input;
    item.through = is_input ? Keeping::inputs : remade.again[id] ? Keeping::all : Keeping::costly;
    all.push_back(std::move(item));
  }
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    const std::vector<Statistic> statistics = kept(body, body.steps[i]).statistics;
    for (std::size_t k = 0; k < statistics.size(); ++k)
      all.push_back({.name = body.tensors[body.steps[i].output].name + "." + statistics[k].name,
                     .tensor = {},
                     .statistic = k,
                     .step = i,
                     .elements = statistics[k].elements,
                     .type = statistics[k].type,
                     .through = statistics[k].is_large ? Keeping::all : Keeping::costly});
  }
  std::ranges::stable_sort(all, {}, &KeptTensor::step);
  return all;
}

std::vector<bool> runs_again(const Body& body, Keeping keeping) {
  std::vector<bool> wanted(body.tensors.size()), again(body.steps.size());
  for (const KeptTensor& item : kept_tensors(body)) {
    if (item.through >= keeping) continue;
    if (item.tensor)
      wanted[*item.tensor] = true;
    else
      again[item.step] = true;
  }
  std::vector<bool> has(body.tensors.size());
  for (const KeptTensor& item : kept_tensors(body))
    if (item.tensor && item.through >= keeping) has[*item.tensor] = true;
  for (std::size_t i = body.steps.size(); i-- > 0;) {
    const Step& step = body.steps[i];
    if (wanted[step.output] && !has[step.output]) again[i] = true;
    if (!again[i]) continue;
    for (const TensorId input : step.inputs) wanted[input] = true;
  }
  return again;
}

}  // namespace llmtrain::body

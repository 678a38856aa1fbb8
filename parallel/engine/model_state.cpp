// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/model_state.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/huggingface/tensor_dtype.h"
#include "parallel/engine/owned_elements.h"

namespace llmtrain {
namespace {

at::ScalarType type_of(const LogicalTensor& tensor) {
  const at::ScalarType type = tensor_type(tensor.dtype);
  if (type != at::ScalarType::Undefined) return type;
  throw Error(ExitCode::bad_data, tensor.name + ": has dtype " + tensor.dtype + "; weights must be F32, BF16 or F16");
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// The elements' slice of a tensor over the owned range.
at::Tensor in(const at::Tensor& owned, const OwnedElements& elements) {
  return owned.slice(0, elements.place, elements.place + elements.count());
}

void check_shape(const CheckpointReader& checkpoint, const std::string& name, const Parameter& parameter) {
  const LogicalTensor* tensor = checkpoint.find(name);
  const std::string where = checkpoint.folder().string() + ": " + name;
  if (tensor == nullptr)
    throw Error(ExitCode::bad_data, where + ": is missing; this is not a checkpoint of the recipe's model");
  if (tensor->shape != parameter.shape) {
    throw Error(ExitCode::bad_data, where + ": has shape " + shape_text(tensor->shape) + "; the recipe's model has " +
                                        shape_text(parameter.shape));
  }
}

// Reads into flat memory, directly if type and device match, else through a temporary tensor.
void read_box(const CheckpointReader& checkpoint, const LogicalTensor& tensor, const SliceBox& box,
              const at::Tensor& flat) {
  const at::ScalarType type = type_of(tensor);
  const bool fits = flat.is_cpu() && flat.scalar_type() == type;
  const at::Tensor read = fits ? flat : at::empty(flat.sizes(), at::dtype(type));
  checkpoint.read_box(tensor.name, box, std::span<std::byte>(static_cast<std::byte*>(read.data_ptr()), read.nbytes()));
  if (!fits) flat.copy_(read);
}

// Copies the owned part of a logical tensor of the checkpoint into the owned memory.
void read_into(const CheckpointReader& checkpoint, const std::string& name, const OwnedElements& elements,
               const at::Tensor& owned) {
  constexpr std::int64_t piece = 1 << 24;  // elements: bounds the temporary copy
  check_shape(checkpoint, name, *elements.parameter);
  for (std::int64_t begin = elements.begin; begin < elements.end; begin += piece) {
    std::int64_t next = elements.place + begin - elements.begin;
    for (const SliceBox& box : elements.boxes(begin, std::min(begin + piece, elements.end))) {
      const std::int64_t count = element_count(box.shape);
      read_box(checkpoint, *checkpoint.find(name), box, owned.slice(0, next, next + count));
      next += count;
    }
  }
}

// Calls `function(elements, memory)` for every parameter of which this rank owns elements.
template <class Function>
void for_owned(const LocalModel& model, Function function) {
  for (const ParameterUnit* unit : model.units())
    for (const OwnedElements& elements : owned_elements(model, *unit)) function(elements, *unit->parameters);
}

// Reads the most precise copy of the weights in the checkpoint: the master weights if it has them.
void read_weights(const CheckpointReader& checkpoint, const OwnedElements& elements, const at::Tensor& owned) {
  const std::string& name = elements.parameter->name;
  const std::string master = name + ".master";
  read_into(checkpoint, checkpoint.find(master) != nullptr ? master : name, elements, owned);
}

// The part of a whole parameter without padding, flat.
at::Tensor cut(at::Tensor whole, const LocalPart& part) {
  for (std::size_t axis = 0; axis < part.shape.size(); ++axis)
    whole = whole.narrow(static_cast<std::int64_t>(axis), part.offset[axis], part.real_shape[axis]);
  return whole.reshape({-1});
}

void publish(LocalModel& model) {
  for (const ParameterUnit* unit : model.units()) unit->parameters->publish();
}

}  // namespace

void load_state(LocalModel& model, const CheckpointReader& checkpoint) {
  // Weights are published to the rounded copies and other ranks there; optimizer states have no copies.
  load_weights(model, checkpoint);
  for_owned(model, [&](const OwnedElements& elements, const ShardedParameters& memory) {
    for (const OptimizerState& state : memory.optimizer_states())
      read_into(checkpoint, elements.parameter->name + "." + state.name, elements, state.values);
  });
}

void load_weights(LocalModel& model, const CheckpointReader& checkpoint) {
  for_owned(model, [&](const OwnedElements& elements, const ShardedParameters& memory) {
    read_weights(checkpoint, elements, memory.source());
  });
  publish(model);
}

void load_weights(LocalModel& model, const NamedWeights& weights) {
  for_owned(model, [&](const OwnedElements& elements, const ShardedParameters& memory) {
    const at::Tensor part = cut(weights.at(elements.parameter->name), elements.part);
    in(memory.source(), elements).copy_(part.slice(0, elements.begin, elements.end));
  });
  publish(model);
}

NamedWeights named_weights(const LocalModel& model) {
  NamedWeights weights;
  for_owned(model, [&](const OwnedElements& elements, const ShardedParameters& memory) {
    weights[elements.parameter->name] = in(memory.source(), elements).cpu().view(elements.parameter->shape);
  });
  return weights;
}

}  // namespace llmtrain

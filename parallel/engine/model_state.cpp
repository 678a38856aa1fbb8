// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/model_state.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/graph/sharding.h"
#include "parallel/plan/flat_shards.h"

namespace llmtrain {
namespace {

at::ScalarType scalar_type(const LogicalTensor& tensor) {
  if (tensor.dtype == "F32") return at::kFloat;
  if (tensor.dtype == "BF16") return at::kBFloat16;
  if (tensor.dtype == "F16") return at::kHalf;
  throw Error(ExitCode::bad_data, tensor.name + ": has dtype " + tensor.dtype + "; weights are F32, BF16 or F16");
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// What this rank owns of its part of a parameter: elements [begin, end) of the part, from `place` on in the owned
// memory.
struct OwnedElements {
  LocalPart part;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t place = 0;

  // Those of them that are no padding, in a tensor over what is owned.
  at::Tensor in(const at::Tensor& flat) const { return flat.slice(0, place, place + real_end() - begin); }
  std::int64_t real_end() const { return std::max(begin, std::min(end, part.real_elements())); }
};

// The part's elements of rows of the whole parameter, flat.
at::Tensor cut(at::Tensor rows, const LocalPart& part) {
  for (std::size_t axis = 1; axis < part.shape.size(); ++axis)
    rows = rows.narrow(static_cast<std::int64_t>(axis), part.offset[axis], part.real_shape[axis]);
  return rows.reshape({-1});
}

std::int64_t row_elements(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
}

void check_shape(const CheckpointReader& checkpoint, const std::string& name, const Parameter& parameter) {
  const LogicalTensor* tensor = checkpoint.find(name);
  const std::string where = checkpoint.folder().string() + ": " + name;
  if (tensor == nullptr) throw Error(ExitCode::bad_data, where + ": is missing; it is no checkpoint of this model");
  if (tensor->shape != parameter.shape) {
    throw Error(ExitCode::bad_data, where + ": has shape " + shape_text(tensor->shape) + ", the recipe's model has " +
                                        shape_text(parameter.shape));
  }
}

// Copies what is owned of a logical tensor of the checkpoint into flat memory, converting its type. Whole rows are read
// and cut, so that only the rows are read that are needed.
void read_into(const CheckpointReader& checkpoint, const std::string& name, const Parameter& parameter,
               const OwnedElements& elements, const at::Tensor& flat) {
  check_shape(checkpoint, name, parameter);
  const LocalPart& part = elements.part;
  const std::int64_t own_row = row_elements(part.shape), whole_row = row_elements(parameter.shape);
  if (elements.real_end() == elements.begin) return;
  const std::int64_t first = elements.begin / own_row, last = (elements.real_end() + own_row - 1) / own_row;
  std::vector<std::int64_t> shape = parameter.shape;
  shape[0] = last - first;
  const at::Tensor rows = at::empty(shape, at::dtype(scalar_type(*checkpoint.find(name))));
  checkpoint.read(name, (part.offset[0] + first) * whole_row, (part.offset[0] + last) * whole_row,
                  std::span<std::byte>(static_cast<std::byte*>(rows.data_ptr()), rows.nbytes()));
  const std::int64_t skipped = first * own_row;
  elements.in(flat).copy_(cut(rows, part).slice(0, elements.begin - skipped, elements.real_end() - skipped));
}

// Calls `function(parameter, elements, memory)` for every parameter that this rank owns something of.
template <class Function>
void for_owned(const LocalModel& model, Function function) {
  for (const ParameterUnit* unit : model.units()) {
    const FlatInterval owned = unit->parameters->owned();
    for (const FlatRange& range : unit->store->ranges()) {
      const FlatInterval common = intersection({range.begin, range.end}, owned);
      if (common.count() == 0) continue;
      const Parameter& parameter = model.graph().parameters[range.parameter];
      function(parameter,
               OwnedElements{local_part(model.graph().model, parameter, model.groups().shard_place()),
                             common.begin - range.begin, common.end - range.begin, common.begin - owned.begin},
               *unit->parameters);
    }
  }
}

void read_master(const CheckpointReader& checkpoint, const Parameter& parameter, const OwnedElements& elements,
                 const at::Tensor& flat) {
  const std::string master = parameter.name + ".master";
  read_into(checkpoint, checkpoint.find(master) != nullptr ? master : parameter.name, parameter, elements, flat);
}

void publish(LocalModel& model) {
  for (const ParameterUnit* unit : model.units()) unit->parameters->publish();
}

}  // namespace

void load_state(LocalModel& model, const CheckpointReader& checkpoint) {
  load_weights(model, checkpoint);
  for_owned(model, [&](const Parameter& parameter, const OwnedElements& elements, const ShardedParameters& memory) {
    read_into(checkpoint, parameter.name + ".m", parameter, elements, memory.first_moment());
    read_into(checkpoint, parameter.name + ".v", parameter, elements, memory.second_moment());
  });
}

void load_weights(LocalModel& model, const CheckpointReader& checkpoint) {
  for_owned(model, [&](const Parameter& parameter, const OwnedElements& elements, const ShardedParameters& memory) {
    read_master(checkpoint, parameter, elements, memory.master());
  });
  publish(model);
}

void load_weights(LocalModel& model, const NamedWeights& weights) {
  for_owned(model, [&](const Parameter& parameter, const OwnedElements& elements, const ShardedParameters& memory) {
    const LocalPart& part = elements.part;
    const at::Tensor rows = weights.at(parameter.name).narrow(0, part.offset[0], part.real_shape[0]);
    elements.in(memory.master()).copy_(cut(rows, part).slice(0, elements.begin, elements.real_end()));
  });
  publish(model);
}

NamedWeights named_weights(const LocalModel& model) {
  NamedWeights weights;
  for_owned(model, [&](const Parameter& parameter, const OwnedElements& elements, const ShardedParameters& memory) {
    weights[parameter.name] = elements.in(memory.master()).cpu().view(parameter.shape);
  });
  return weights;
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/model_state.h"

#include <ATen/ops/empty.h>

#include <cstddef>
#include <span>
#include <string>

#include "core/base/error.h"
#include "parallel/plan/flat_shards.h"

namespace llmtrain {
namespace {

std::string dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "F32";
    case at::kBFloat16:
      return "BF16";
    case at::kHalf:
      return "F16";
    default:
      throw Error(ExitCode::internal_error, "no checkpoint holds this tensor type");
  }
}

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

// What is kept of a unit's parameters, in the order in which it passes between ranks.
struct StatePart {
  at::Tensor owned;
  std::string suffix;  // of the names in the checkpoint
};

std::vector<StatePart> state_parts(const ShardedParameters& parameters) {
  std::vector<StatePart> parts;
  const auto rounded = parameters.rounded();
  if (rounded) parts.push_back({*rounded, ""});
  parts.push_back({parameters.master(), rounded ? ".master" : ""});
  parts.push_back({parameters.first_moment(), ".m"});
  parts.push_back({parameters.second_moment(), ".v"});
  return parts;
}

// Brings all ranks' state to the first one as slices of the whole model's tensors.
class SliceCollector {
 public:
  SliceCollector(const LocalModel& model, std::vector<at::Tensor>& copies) : model_(model), copies_(copies) {}

  std::vector<TensorSlice> collect() {
    for (int position = 0; position < model_.groups().pipeline.ranks(); ++position) {
      if (position == model_.groups().pipeline.position()) {
        give();
      } else if (model_.groups().data.is_first()) {
        receive(position);
      }
    }
    return std::move(slices_);
  }

 private:
  void give() {
    const DataParallel& data = model_.groups().data;
    for (const ParameterUnit* unit : model_.units()) {
      if (!model_.counts(*unit)) continue;
      for (const StatePart& part : state_parts(*unit->parameters)) {
        const at::Tensor whole = unit->parameters->collect_owned(part.owned);
        if (!whole.defined()) continue;
        if (data.is_first()) {
          add(*unit->store, whole, part.suffix);
        } else {
          data.send_to_first(whole.slice(0, 0, unit->store->elements()));
        }
      }
    }
  }

  // The rank's parts are of the types of this one's.
  void receive(int position) {
    const RankGroups& groups = model_.groups();
    const auto rank = static_cast<int>(position * (groups.mesh.world() / groups.mesh.pipeline));
    auto units = model_.unit_parameters(position);
    if (model_.shares_embedding_at(position)) units.erase(units.begin());
    for (const auto& parameters : units) {
      const ParameterStore layout(model_.graph(), parameters);
      for (const StatePart& part : state_parts(*model_.units().front()->parameters)) {
        const at::Tensor whole = at::empty({layout.elements()}, part.owned.options());
        groups.data.receive_from(rank, whole);
        add(layout, whole, part.suffix);
      }
    }
  }

  void add(const ParameterStore& layout, const at::Tensor& flat, const std::string& suffix) {
    const at::Tensor resident = flat.cpu();
    copies_.push_back(resident);
    for (const FlatRange& range : layout.ranges()) {
      const Parameter& parameter = model_.graph().parameters[range.parameter];
      TensorSlice slice;
      slice.name = parameter.name + suffix;
      slice.dtype = dtype_name(flat.scalar_type());
      slice.shape = slice.slice_shape = parameter.shape;
      slice.offset.assign(parameter.shape.size(), 0);
      slice.data = resident.slice(0, range.begin, range.end).data_ptr();
      slices_.push_back(std::move(slice));
    }
  }

  const LocalModel& model_;
  std::vector<at::Tensor>& copies_;
  std::vector<TensorSlice> slices_;
};

// A parameter's elements that this rank owns: `begin` … of the parameter, from `place` on in the owned memory.
struct OwnedElements {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t place = 0;

  at::Tensor in(const at::Tensor& flat) const { return flat.slice(0, place, place + end - begin); }
};

// Copies a part of a logical tensor of the checkpoint into flat memory, converting its type.
void read_into(const CheckpointReader& checkpoint, const std::string& name, const Parameter& parameter,
               const OwnedElements& elements, const at::Tensor& flat) {
  const LogicalTensor* tensor = checkpoint.find(name);
  const std::string where = checkpoint.folder().string() + ": " + name;
  if (tensor == nullptr) throw Error(ExitCode::bad_data, where + ": is missing; it is no checkpoint of this model");
  if (tensor->shape != parameter.shape) {
    throw Error(ExitCode::bad_data, where + ": has shape " + shape_text(tensor->shape) + ", the recipe's model has " +
                                        shape_text(parameter.shape));
  }
  const at::Tensor values = at::empty({elements.end - elements.begin}, at::dtype(scalar_type(*tensor)));
  checkpoint.read(name, elements.begin, elements.end,
                  std::span<std::byte>(static_cast<std::byte*>(values.data_ptr()), values.nbytes()));
  elements.in(flat).copy_(values);
}

// Calls `function(parameter, elements, memory)` for every parameter that this rank owns something of.
template <class Function>
void for_owned(const LocalModel& model, Function function) {
  for (const ParameterUnit* unit : model.units()) {
    const FlatInterval owned = unit->parameters->owned();
    for (const FlatRange& range : unit->store->ranges()) {
      const FlatInterval part = intersection({range.begin, range.end}, owned);
      if (part.count() == 0) continue;
      const OwnedElements elements{part.begin - range.begin, part.end - range.begin, part.begin - owned.begin};
      function(model.graph().parameters[range.parameter], elements, *unit->parameters);
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

std::vector<TensorSlice> state_slices(const LocalModel& model, std::vector<at::Tensor>& copies) {
  return SliceCollector(model, copies).collect();
}

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
    elements.in(memory.master()).copy_(weights.at(parameter.name).reshape({-1}).slice(0, elements.begin, elements.end));
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

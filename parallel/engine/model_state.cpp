// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/model_state.h"

#include <ATen/ops/empty.h>

#include <cstddef>
#include <span>
#include <string>

#include "core/base/error.h"

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

class SliceCollector {
 public:
  SliceCollector(std::vector<TensorSlice>& slices, std::vector<at::Tensor>& copies)
      : slices_(slices), copies_(copies) {}

  void add(const std::string& name, const Parameter& parameter, const at::Tensor& values) {
    at::Tensor resident = values;
    if (!values.is_cpu()) {
      resident = values.cpu();
      copies_.push_back(resident);
    }
    TensorSlice slice;
    slice.name = name;
    slice.dtype = dtype_name(values.scalar_type());
    slice.shape = slice.slice_shape = parameter.shape;
    slice.offset.assign(parameter.shape.size(), 0);
    slice.data = resident.data_ptr();
    slices_.push_back(std::move(slice));
  }

 private:
  std::vector<TensorSlice>& slices_;
  std::vector<at::Tensor>& copies_;
};

// Copies a whole logical tensor of the checkpoint into flat memory, converting its type.
void read_into(const CheckpointReader& checkpoint, const std::string& name, const Parameter& parameter,
               at::Tensor destination) {
  const LogicalTensor* tensor = checkpoint.find(name);
  const std::string where = checkpoint.folder().string() + ": " + name;
  if (tensor == nullptr) throw Error(ExitCode::bad_data, where + ": is missing; it is no checkpoint of this model");
  if (tensor->shape != parameter.shape) {
    throw Error(ExitCode::bad_data, where + ": has shape " + shape_text(tensor->shape) + ", the recipe's model has " +
                                        shape_text(parameter.shape));
  }
  const at::Tensor values = at::empty({parameter.elements()}, at::dtype(scalar_type(*tensor)));
  checkpoint.read(name, 0, parameter.elements(),
                  std::span<std::byte>(static_cast<std::byte*>(values.data_ptr()), values.nbytes()));
  destination.copy_(values);
}

// Calls `function(parameter, range, stage)` for every parameter of the model.
template <class Model, class Function>
void for_parameters(Model& model, Function function) {
  for (auto& stage : model.stages()) {
    for (const FlatRange& range : stage.store->ranges())
      function(model.graph().parameters[range.parameter], range, stage);
  }
}

at::Tensor part(const at::Tensor& flat, const FlatRange& range) { return flat.slice(0, range.begin, range.end); }

void read_master(const CheckpointReader& checkpoint, const Parameter& parameter, at::Tensor destination) {
  const std::string master = parameter.name + ".master";
  read_into(checkpoint, checkpoint.find(master) != nullptr ? master : parameter.name, parameter,
            std::move(destination));
}

}  // namespace

std::vector<TensorSlice> state_slices(const LocalModel& model, std::vector<at::Tensor>& copies) {
  std::vector<TensorSlice> slices;
  SliceCollector collector(slices, copies);
  for_parameters(model, [&](const Parameter& parameter, const FlatRange& range, const LocalModel::StageState& stage) {
    const auto& copy = stage.store->compute_copy();
    if (copy) collector.add(parameter.name, parameter, part(*copy, range));
    collector.add(parameter.name + (copy ? ".master" : ""), parameter, part(stage.store->master(), range));
    collector.add(parameter.name + ".m", parameter, part(stage.optimizer->first_moment(), range));
    collector.add(parameter.name + ".v", parameter, part(stage.optimizer->second_moment(), range));
  });
  return slices;
}

void load_state(LocalModel& model, const CheckpointReader& checkpoint) {
  load_weights(model, checkpoint);
  for_parameters(model, [&](const Parameter& parameter, const FlatRange& range, const LocalModel::StageState& stage) {
    read_into(checkpoint, parameter.name + ".m", parameter, part(stage.optimizer->first_moment(), range));
    read_into(checkpoint, parameter.name + ".v", parameter, part(stage.optimizer->second_moment(), range));
  });
}

void load_weights(LocalModel& model, const CheckpointReader& checkpoint) {
  for_parameters(model, [&](const Parameter& parameter, const FlatRange& range, const LocalModel::StageState& stage) {
    read_master(checkpoint, parameter, part(stage.store->master(), range));
  });
  for (auto& stage : model.stages()) stage.store->refresh_compute_copy();
}

void load_weights(LocalModel& model, const NamedWeights& weights) {
  for_parameters(model, [&](const Parameter& parameter, const FlatRange& range, const LocalModel::StageState& stage) {
    part(stage.store->master(), range).copy_(weights.at(parameter.name).reshape({-1}));
  });
  for (auto& stage : model.stages()) stage.store->refresh_compute_copy();
}

NamedWeights named_weights(const LocalModel& model) {
  NamedWeights weights;
  for_parameters(model, [&](const Parameter& parameter, const FlatRange& range, const LocalModel::StageState& stage) {
    weights[parameter.name] = part(stage.store->master(), range).cpu().view(parameter.shape);
  });
  return weights;
}

}  // namespace llmtrain

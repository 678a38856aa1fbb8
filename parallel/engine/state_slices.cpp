// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/huggingface/tensor_dtype.h"
#include "parallel/engine/model_state.h"
#include "parallel/engine/owned_elements.h"

namespace llmtrain {
namespace {

// One state of a unit's parameters: rounded weights, master weights or an optimizer state.
struct StatePart {
  at::Tensor owned;
  std::string suffix;  // appended to the parameter's name in the checkpoint
};

std::vector<StatePart> state_parts(const ShardedParameters& parameters) {
  std::vector<StatePart> parts;
  const auto rounded = parameters.rounded();
  if (rounded) parts.push_back({*rounded, ""});
  parts.push_back({parameters.source(), rounded ? ".master" : ""});
  for (const OptimizerState& state : parameters.optimizer_states()) parts.push_back({state.values, "." + state.name});
  return parts;
}

class SliceList {
 public:
  void add(const OwnedElements& elements, const StatePart& part) {
    const at::Tensor owned = part.owned.slice(0, elements.place, elements.place + elements.count());
    const at::Tensor resident = owned.cpu();  // no copy if it is on the CPU already
    if (!owned.is_cpu()) copies_.push_back(resident);
    const auto* next = static_cast<const std::byte*>(resident.data_ptr());
    for (const SliceBox& box : elements.boxes(elements.begin, elements.end)) {
      slices_.push_back({elements.parameter->name + part.suffix, dtype_name(resident.scalar_type()),
                         elements.parameter->shape, box.offset, box.shape, next});
      next += element_count(box.shape) * static_cast<std::int64_t>(resident.element_size());
    }
  }

  StateSlices take() {
    StateSlices state{std::move(slices_), nullptr};
    // The slices point into the copies, so these must live as long as the slices.
    if (!copies_.empty()) state.memory = std::make_shared<const std::vector<at::Tensor>>(std::move(copies_));
    return state;
  }

 private:
  std::vector<TensorSlice> slices_;
  std::vector<at::Tensor> copies_;
};

}  // namespace

StateSlices state_slices(const LocalModel& model) {
  SliceList list;
  for (const ParameterUnit* unit : model.units()) {
    // The same elements for every state: weights, master weights and moments of a parameter are cut alike.
    const auto saved = saved_elements(model, *unit);
    for (const StatePart& part : state_parts(*unit->parameters))
      for (const OwnedElements& elements : saved) list.add(elements, part);
  }
  return list.take();
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/graph/sharding.h"
#include "parallel/engine/model_state.h"

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

// Brings all ranks' state to the first one, one rank of each part of the model after the other.
class SliceCollector {
 public:
  SliceCollector(const LocalModel& model, std::vector<at::Tensor>& copies) : model_(model), copies_(copies) {}

  std::vector<TensorSlice> collect() {
    const RankGroups& groups = model_.groups();
    for (int position = 0; position < groups.pipeline.ranks(); ++position) {
      for (std::int64_t tensor = 0; tensor < groups.mesh.tensor; ++tensor) {
        if (position == groups.pipeline.position() && tensor == groups.tensor.position()) {
          give();
        } else if (groups.data.is_first()) {
          receive(position, tensor);
        }
      }
    }
    return std::move(slices_);
  }

 private:
  using Parameters = std::vector<std::size_t>;

  void give() {
    const RankGroups& groups = model_.groups();
    const auto parameters = model_.unit_parameters(groups.pipeline.position());
    const auto units = model_.units();
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (!model_.counts(*units[i])) continue;
      for (const StatePart& part : state_parts(*units[i]->parameters)) {
        const at::Tensor whole = units[i]->parameters->collect_owned(part.owned);
        if (!whole.defined()) continue;
        if (groups.data.is_first()) {
          add(parameters[i], groups.tensor.position(), whole, part.suffix);
        } else {
          groups.data.send_to_first(whole.slice(0, 0, elements_of(parameters[i])));
        }
      }
    }
  }

  // The other rank's tensors are of the types of this one's.
  void receive(int position, std::int64_t tensor) {
    const RankGroups& groups = model_.groups();
    const auto rank = static_cast<int>(position * (groups.mesh.world() / groups.mesh.pipeline) + tensor);
    auto units = model_.unit_parameters(position);
    if (position > 0 && model_.shares_embedding_at(position)) units.erase(units.begin());
    for (const Parameters& parameters : units) {
      for (const StatePart& part : state_parts(*model_.units().front()->parameters)) {
        const at::Tensor whole = at::empty({elements_of(parameters)}, part.owned.options());
        groups.data.receive_from(rank, whole);
        add(parameters, tensor, whole, part.suffix);
      }
    }
  }

  std::int64_t elements_of(const Parameters& parameters) const {
    std::int64_t elements = 0;
    for (const std::size_t parameter : parameters) elements += part_of(parameter, 0).elements();
    return elements;
  }

  LocalPart part_of(std::size_t parameter, std::int64_t tensor) const {
    ShardPlace place = model_.groups().shard_place();
    place.tensor = tensor;
    return local_part(model_.graph().model, model_.graph().parameters[parameter], place);
  }

  // Of what several ranks hold the first one's is taken.
  void add(const Parameters& parameters, std::int64_t tensor, const at::Tensor& flat, const std::string& suffix) {
    const at::Tensor resident = flat.cpu();
    copies_.push_back(resident);
    std::int64_t begin = 0;
    for (const std::size_t index : parameters) {
      const Parameter& parameter = model_.graph().parameters[index];
      const LocalPart part = part_of(index, tensor);
      const at::Tensor elements = resident.slice(0, begin, begin + part.elements());
      begin += part.elements();
      if (part.copy > 0 || part.real_elements() == 0) continue;
      slices_.push_back({parameter.name + suffix, dtype_name(flat.scalar_type()), parameter.shape, part.offset,
                         part.real_shape, elements.data_ptr()});
    }
  }

  const LocalModel& model_;
  std::vector<at::Tensor>& copies_;
  std::vector<TensorSlice> slices_;
};

}  // namespace

std::vector<TensorSlice> state_slices(const LocalModel& model, std::vector<at::Tensor>& copies) {
  return SliceCollector(model, copies).collect();
}

}  // namespace llmtrain

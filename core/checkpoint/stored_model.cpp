// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/stored_model.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "core/base/error.h"

namespace llmtrain {

const LogicalTensor& find_tensor(const CheckpointReader& checkpoint, const std::string& name,
                                 const Parameter& parameter) {
  const LogicalTensor* tensor = checkpoint.find(name);
  const std::string where = checkpoint.folder().string() + ": " + name;
  if (tensor == nullptr)
    throw Error(ExitCode::bad_data, where + ": is missing; this is not a checkpoint of the recipe's model");
  if (tensor->shape != parameter.shape)
    throw Error(ExitCode::bad_data, fmt::format("{}: has shape [{}]; the recipe's model has [{}]", where,
                                                fmt::join(tensor->shape, ", "), fmt::join(parameter.shape, ", ")));
  return *tensor;
}

std::string weights_name(const CheckpointReader& checkpoint, const Parameter& parameter) {
  std::string master = parameter.name + ".master";
  return checkpoint.find(master) != nullptr ? master : parameter.name;
}

bool leaves_out(const CheckpointReader& checkpoint, const Parameter& parameter) {
  return checkpoint.state().base && parameter.is_frozen && checkpoint.find(parameter.name) == nullptr;
}

bool keeps_own(const CheckpointReader& checkpoint, const Parameter& parameter) {
  const bool has_none = parameter.is_adapter && checkpoint.find(weights_name(checkpoint, parameter)) == nullptr;
  return has_none || leaves_out(checkpoint, parameter);
}

void require_weights(const CheckpointReader& checkpoint, const Graph& graph) {
  for (const Parameter& parameter : graph.parameters)
    if (!leaves_out(checkpoint, parameter)) find_tensor(checkpoint, weights_name(checkpoint, parameter), parameter);
}

}  // namespace llmtrain

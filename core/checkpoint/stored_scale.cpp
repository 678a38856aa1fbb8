// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/stored_scale.h"

#include <span>

#include "core/base/element_type.h"
#include "core/base/error.h"
#include "core/checkpoint/tensor_slice.h"

namespace llmtrain {

std::string scale_name(const std::string& tensor) { return tensor + ".scale"; }

std::optional<float> read_number(const CheckpointReader& checkpoint, const std::string& name) {
  const LogicalTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) return std::nullopt;
  if (tensor->dtype != "F32" || element_count(tensor->shape) != 1)
    throw Error(ExitCode::bad_data, checkpoint.folder().string() + ": " + name + ": is not one F32 number");
  float number = 0;
  const std::vector<std::int64_t> origin(tensor->shape.size(), 0);
  checkpoint.read_box(name, {origin, tensor->shape}, std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

}  // namespace llmtrain

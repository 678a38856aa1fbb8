// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/tensor_dtype.h"

#include <array>
#include <utility>

#include "core/base/error.h"

namespace llmtrain {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 3> names{
    {{"F32", at::kFloat}, {"BF16", at::kBFloat16}, {"F16", at::kHalf}}};

}  // namespace

at::ScalarType tensor_type(std::string_view dtype) {
  for (const auto& [name, type] : names)
    if (name == dtype) return type;
  return at::ScalarType::Undefined;
}

std::string dtype_name(at::ScalarType type) {
  for (const auto& [name, known] : names)
    if (known == type) return std::string(name);
  throw Error(ExitCode::internal_error, "no checkpoint holds this tensor type");
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"

namespace llmtrain {

// Types of weights by their names in safetensors.
inline constexpr std::array<std::pair<std::string_view, at::ScalarType>, 3> tensor_dtypes{
    {{"F32", at::kFloat}, {"BF16", at::kBFloat16}, {"F16", at::kHalf}}};

// Undefined for other names.
inline at::ScalarType tensor_type(std::string_view dtype) {
  for (const auto& [name, type] : tensor_dtypes)
    if (name == dtype) return type;
  return at::ScalarType::Undefined;
}

// FP8 is among a checkpoint's own states, which have scales, and not among the weights that are imported.
inline constexpr std::string_view fp8_dtype = "F8_E4M3";

// The type of weights or optimizer states in a checkpoint. Throws Error(bad_data) where the tensor is of a type that
// neither has.
inline at::ScalarType stored_type(const LogicalTensor& tensor) {
  const at::ScalarType type = tensor.dtype == fp8_dtype ? at::kFloat8_e4m3fn : tensor_type(tensor.dtype);
  if (type == at::ScalarType::Undefined)
    throw Error(ExitCode::bad_data,
                tensor.name + ": has dtype " + tensor.dtype + "; states must be F32, BF16, F16 or F8_E4M3");
  return type;
}

// Throws Error(internal_error) for other types.
inline std::string dtype_name(at::ScalarType type) {
  if (type == at::kFloat8_e4m3fn) return std::string(fp8_dtype);
  for (const auto& [name, known] : tensor_dtypes)
    if (known == type) return std::string(name);
  throw Error(ExitCode::internal_error, "no checkpoint holds this tensor type");
}

}  // namespace llmtrain

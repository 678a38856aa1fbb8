// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/tensor_array.h"

#include <array>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace llmtrain {
namespace {

constexpr std::array<std::pair<ElementType, at::ScalarType>, 8> names{{{ElementType::float32, at::kFloat},
                                                                       {ElementType::bfloat16, at::kBFloat16},
                                                                       {ElementType::float16, at::kHalf},
                                                                       {ElementType::float8_e4m3, at::kFloat8_e4m3fn},
                                                                       {ElementType::float8_e5m2, at::kFloat8_e5m2},
                                                                       {ElementType::int32, at::kInt},
                                                                       {ElementType::int64, at::kLong},
                                                                       {ElementType::uint8, at::kByte}}};

}  // namespace

at::ScalarType scalar_type(ElementType type) {
  for (const auto& [element, scalar] : names)
    if (element == type) return scalar;
  throw Error(ExitCode::internal_error, "LibTorch has no type for " + std::string(element_name(type)));
}

ElementType element_type(at::ScalarType type) {
  for (const auto& [element, scalar] : names)
    if (scalar == type) return element;
  throw Error(ExitCode::internal_error, "tensors of this type cannot be exchanged between ranks");
}

Array array_of(const at::Tensor& tensor) {
  const Memory memory = tensor.is_cpu() ? Memory::host : Memory::device;
  return {tensor.data_ptr(), tensor.numel(), element_type(tensor.scalar_type()), memory};
}

}  // namespace llmtrain

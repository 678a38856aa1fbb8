// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/tensor_array.h"

#include "core/base/error.h"

namespace llmtrain {
namespace {

ElementType element_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return ElementType::float32;
    case at::kBFloat16:
      return ElementType::bfloat16;
    case at::kHalf:
      return ElementType::float16;
    default:
      throw Error(ExitCode::internal_error, "ranks exchange no tensors of this type");
  }
}

}  // namespace

Array array_of(const at::Tensor& tensor) {
  const Memory memory = tensor.is_cpu() ? Memory::host : Memory::device;
  return {tensor.data_ptr(), tensor.numel(), element_type(tensor.scalar_type()), memory};
}

}  // namespace llmtrain

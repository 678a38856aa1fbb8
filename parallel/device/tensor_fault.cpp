// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/tensor_fault.h"

#include <ATen/ops/empty.h>

#include <span>

#include "kernels/host_copy.h"

namespace llmtrain {

void tensor_fault_point(FaultPlace place, std::int64_t rank, std::int64_t step, const at::Tensor& tensor) {
  if (!tensor.defined()) return fault_point(place, rank, step);
  if (!has_fault(place, rank, step)) return;
  const at::Tensor changed = kernels::to_host(tensor);  // the tensor itself on a CPU
  fault_point(place, rank, step, {static_cast<std::byte*>(changed.data_ptr()), changed.nbytes()});
  // The copy may still be read when this returns: LibTorch keeps pinned memory until then.
  if (!tensor.is_cpu()) tensor.copy_(changed, true);
}

at::Tensor grown_memory(std::int64_t rank, std::int64_t step, const c10::Device& device) {
  constexpr std::int64_t mebibyte = 1 << 20;
  if (!has_grown(rank, step)) return {};
  return at::empty({mebibyte}, at::TensorOptions(device).dtype(at::kByte));
}

}  // namespace llmtrain

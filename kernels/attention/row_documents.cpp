// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/row_documents.h"

#include <ATen/ops/empty.h>

#include <cstdint>

#include "kernels/host_copy.h"

namespace llmtrain::kernels {

at::Tensor document_starts(std::span<const PositionRun> documents, const at::Device& device) {
  if (device.is_cpu() || documents.empty()) return {};
  const auto count = static_cast<std::int64_t>(documents.size());
  const at::Tensor starts = at::empty({count + 1}, at::kInt);
  auto* const begin = starts.mutable_data_ptr<int>();
  for (std::size_t i = 0; i < documents.size(); ++i) begin[i] = static_cast<int>(documents[i].begin);
  begin[count] = static_cast<int>(documents.back().begin + documents.back().length);
  return to_device(starts, device);
}

}  // namespace llmtrain::kernels

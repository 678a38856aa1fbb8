// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cuda_decode.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {
namespace {

DecodeRows rows_of(const at::Tensor& x) { return {x.const_data_ptr(), x.stride(0), x.stride(1)}; }

}  // namespace

bool has_cuda_decode(const at::Tensor& query, const KeyValueMemory& memory) {
  return has_kernels(query) && query.size(2) <= most_decode_dim && memory.key.is_contiguous() &&
         memory.value.is_contiguous() && memory.key.scalar_type() == query.scalar_type();
}

void cuda_decode(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const CachedTokens& tokens,
                 const KeyValueMemory& memory, std::int64_t count, std::int64_t keys, double scale,
                 const at::Tensor& out) {
  const c10::DeviceGuard guard(query.device());
  const std::int64_t heads = query.size(1), dim = query.size(2), pieces = decode_pieces(keys);
  const at::Tensor partials = at::empty({count, heads, pieces, dim + 2}, query.options().dtype(at::kFloat));
  kernel_table()->decode->attend({.element = *element_of(query),
                                  .query = rows_of(query),
                                  .key = rows_of(key),
                                  .value = rows_of(value),
                                  .keys = memory.key.mutable_data_ptr(),
                                  .values = memory.value.mutable_data_ptr(),
                                  .out = out.mutable_data_ptr(),
                                  .sequences = tokens.sequences.const_data_ptr<std::int64_t>(),
                                  .positions = tokens.positions.const_data_ptr<std::int64_t>(),
                                  .partials = partials.mutable_data_ptr<float>(),
                                  .tokens = count,
                                  .heads = heads,
                                  .kv_heads = key.size(1),
                                  .dim = dim,
                                  .all_sequences = memory.key.size(0),
                                  .capacity = memory.key.size(2),
                                  .pieces = pieces,
                                  .scale = static_cast<float>(scale)},
                                 stream_of(query));
}

}  // namespace llmtrain::kernels

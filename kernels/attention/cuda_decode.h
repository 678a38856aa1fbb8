// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/attention/cached_attention.h"

namespace llmtrain::kernels {

// cached_attention() on a GPU of one token of each of some sequences, by two kernels.

bool has_cuda_decode(const at::Tensor& query, const KeyValueMemory& memory);

// Stores and attends for the first `count` rows, of which none is at a position from `keys` on, and writes the first
// rows of `out`, which is contiguous. There must be kernels for the query.
void cuda_decode(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const CachedTokens& tokens,
                 const KeyValueMemory& memory, std::int64_t count, std::int64_t keys, double scale,
                 const at::Tensor& out);

}  // namespace llmtrain::kernels

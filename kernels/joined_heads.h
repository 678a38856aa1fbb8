// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/rope.h"

namespace llmtrain::kernels {

// Gradients of an attention's inputs, of one type: query [B, S, heads, D], key and value [B, S, kv_heads, D]. The last
// axis is contiguous.
struct HeadGradients {
  at::Tensor query, key, value;
};

// Puts them beside one another into `joined` [B, S, heads + 2·kv_heads, D], contiguous, as one projection made all
// three. With a table those of queries and keys are rotated back (rope_(), RopeDirection::backward), which makes them
// gradients of the projection's output; null leaves them as they are. Token t of B·S has the angles of row t mod
// sequence_length. On a GPU one kernel does all of it.
void join_heads(const HeadGradients& gradients, const RopeTable* table, std::int64_t sequence_length,
                const at::Tensor& joined);

}  // namespace llmtrain::kernels

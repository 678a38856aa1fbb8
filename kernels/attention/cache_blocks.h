// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/cached_attention.h"
#include "kernels/vector/products/attention.h"
#include "kernels/vector_dispatch.h"

// What cached_attention() does with the blocks of its memory.
namespace llmtrain::kernels {

// Adjacent rows of one sequence.
struct TokenStretch {
  std::int64_t row, length;
  CachePlace first;
};

std::vector<TokenStretch> stretches_of(std::span<const CachePlace> places);

// Where the keys and values of sequences are.
class CacheBlocks {
 public:
  // Throws Error(internal_error) where a token has no place in the memory. Both outlive this.
  CacheBlocks(const CachedTokens& tokens, const KeyValueMemory& memory);

  std::int64_t size() const { return size_; }
  std::int64_t of(std::int64_t sequence, std::int64_t position) const {
    return tables_.empty() ? sequence
                           : tables_[static_cast<std::size_t>(sequence)][static_cast<std::size_t>(position / size_)];
  }

  // Stores the keys or values of a stretch of the rows in `memory`, and their scales where it has some.
  void store(const TokenStretch& stretch, const at::Tensor& rows, const at::Tensor& memory,
             const at::Tensor& scales) const;

  // The first `end` tokens' keys or values of a sequence, [end, kv_heads, D], in `type` where they have scales: a copy
  // unless they are in one block and have none.
  at::Tensor held(std::int64_t sequence, std::int64_t end, const at::Tensor& memory, const at::Tensor& scales,
                  at::ScalarType type) const;

 private:
  bool have(const CachePlace& place) const;
  // Likewise of what the memory or its scales have, [end, kv_heads, …].
  at::Tensor gathered(const at::Tensor& all, std::int64_t sequence, std::int64_t end) const;

  std::span<const std::vector<std::int64_t>> tables_;
  std::int64_t size_, count_;
};

// Calls `body.template operator()<Stored>()` for the type of what the memory holds of values of this type.
template <class Value, class Body>
void with_stored_type(const KeyValueMemory& memory, const Body& body) {
  if (!memory.is_scaled()) return body.template operator()<Value>();
  if (memory.key.scalar_type() == at::kChar) return body.template operator()<std::int8_t>();
  body.template operator()<vector::Fp8Element>();
}

// Where what the memory holds of a token of a block begins, a row or its scale.
template <class Element>
Element* row_of(const at::Tensor& all, std::int64_t block, std::int64_t head, std::int64_t token) {
  return mutable_elements<Element>(all) + block * all.stride(0) + head * all.stride(1) + token * all.stride(2);
}

}  // namespace llmtrain::kernels

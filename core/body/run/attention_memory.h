// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace llmtrain::body {

// What attention remembers from pass to pass over sequences that grow token by token: of causal attention the keys and
// values of the tokens before, and of attention to other rows those of these rows, which come with one pass alone.
class AttentionMemory {
 public:
  AttentionMemory() = default;
  AttentionMemory(const AttentionMemory&) = delete;
  AttentionMemory& operator=(const AttentionMemory&) = delete;
  virtual ~AttentionMemory() = default;

  struct Call {
    std::uint64_t site = 0;  // which attention it is
    bool is_causal = false;
    std::optional<double> scale{};  // as kernels::AttentionCall has it
    at::Tensor bias{};              // [heads, T, remembered keys]; of causal attention
  };
  // From query [1, T, heads, D], the pass's tokens, and keys and values [1, S, kv_heads, D] that are new: the attention
  // [1, T, heads, D] to all that is remembered of the tokens' sequences.
  virtual at::Tensor attend(const Call& call, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value) = 0;
};

}  // namespace llmtrain::body

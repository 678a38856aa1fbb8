// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace llmtrain {

// What a batch can have of its samples: sources of samples provide some of these, and blocks read some.
enum class BatchField : std::size_t {
  token_ids,  // int64, of each row
  targets,    // int64, of each row: the token that follows it, or for encoders the one that stands there
  // int64 indices of the rows whose losses count, or in prediction of those whose logits are asked for; without it all.
  // The other losses are 0 and have no gradients, and their targets are not read.
  counted_rows,
  token_types,  // int64, of each row: which of the texts of its example it is of
  label,        // int64, of each sample: its class
  pixels,       // fp32 [channels, height, width], of each sample
  source_ids,   // int64, of each row of the source: the encoder's tokens, where token_ids are the decoder's
  span,         // int64 [2], of each sample: the rows in which an answer starts and ends
  // int64 [layers with experts · top_k], of each row: the experts that it goes to, in the model's order; −1: its
  // routers choose.
  routed_experts,
};

inline constexpr std::array<std::string_view, 9> batch_field_names{
    "token_ids", "targets", "counted_rows", "token_types", "label", "pixels", "source_ids", "span", "routed_experts"};

constexpr std::size_t index_of(BatchField field) { return static_cast<std::size_t>(field); }

}  // namespace llmtrain

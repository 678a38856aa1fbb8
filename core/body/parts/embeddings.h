// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/body/body_writer.h"

namespace llmtrain::body {

// Rows of tables that are added: of the tokens, of their places in the sequence and of their segments' types, then
// perhaps scaled, normed and dropped. The fields are "token_ids" and "token_types", and the parameters "token.weight"
// [vocabulary, hidden], "position.weight" [positions, hidden], "token_type.weight" and "norm.weight", "norm.bias".
struct EmbeddingPart {
  std::int64_t vocabulary = 1;
  std::int64_t positions = 0;       // 0: without learned positions
  std::int64_t first_position = 0;  // the row of a sequence's first token: 2 in BART
  std::int64_t token_types = 0;     // 0: without types
  double scale = 1;                 // of the tokens' rows
  std::optional<Norm> norm{};
  double dropout = 0;
};

// [sequences, tokens, hidden]. Refuses as BodyWriter does sequences that are longer than there are positions.
TensorId write_embedding(BodyWriter& writer, const EmbeddingPart& part, AxisId sequences, AxisId tokens, AxisId hidden);

}  // namespace llmtrain::body

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/graph/blocks/block_kind.h"

namespace llmtrain {

// Rows of a table by the tokens' ids, and of another one by their positions.
struct EmbeddingSettings {
  static constexpr bool reads_in_backward = true;
  static constexpr bool runs_again = false;
  static constexpr std::array fields{BlockField{BatchField::token_ids}};

  std::int64_t hidden_size = 0;
  bool has_positions = false;
  double dropout = 0;
  double scale = 1;  // of tokens' rows, not of positions'

  bool operator==(const EmbeddingSettings&) const = default;
};

void write_graph(GraphWriter& writer, const EmbeddingSettings& embedding);
void write_operators(OperatorWriter& writer, const EmbeddingSettings& embedding);

}  // namespace llmtrain

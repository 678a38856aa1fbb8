// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/graph/blocks/block_kind.h"

namespace llmtrain {

// A norm, the projection to the vocabulary and the loss. Its forward makes the gradients.
struct HeadSettings {
  static constexpr bool reads_in_backward = false;
  static constexpr bool runs_again = false;
  static constexpr std::array fields{BlockField{BatchField::targets}, BlockField{BatchField::counted_rows, false}};

  std::int64_t hidden_size = 0;
  std::int64_t vocabulary = 0;
  NormSettings norm{};
  std::int64_t further = 0;  // than the next token is the one that it predicts, with the weight of the model's head
  double coefficient = 1;    // of its loss

  bool operator==(const HeadSettings&) const = default;
};

void write_graph(GraphWriter& writer, const HeadSettings& head);
void write_operators(OperatorWriter& writer, const HeadSettings& head);

}  // namespace llmtrain

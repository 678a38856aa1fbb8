// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "core/base/batch_field.h"
#include "core/recipe/model_recipe.h"

namespace llmtrain {

class GraphWriter;
class OperatorWriter;

// A kind of block is a header and a source in this folder, and a module in core/model. The header has its settings:
// what the block computes, made from a recipe once, which modules, operators and layouts read alone, so that blocks of
// a graph need not be equal. They say as constants
//   reads_in_backward: whether its backward reads its weights again
//   runs_again:        whether `memory.recompute` may run its forward again as a whole
//   fields:            what it reads of the batch
// and the width of the rows that it passes on as hidden_size. Two functions, found by the type of the settings, say
//   write_graph():     the values that it reads and makes, its parameters, and the losses that it raises
//   write_operators(): what it computes, keeps and sends
// A kind that lacks one does not compile.

// A field of the batch that a block reads: one that it needs, or one that samples may have.
struct BlockField {
  BatchField field{};
  bool is_needed = true;
};

inline constexpr std::array<BlockField, 0> no_fields{};

struct NormSettings {
  NormKind kind = NormKind::layernorm;
  double epsilon = 1e-5;

  bool operator==(const NormSettings&) const = default;
};

}  // namespace llmtrain

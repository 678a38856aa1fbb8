// SPDX-License-Identifier: Apache-2.0
#include "core/graph/blocks/embedding.h"

#include <vector>

#include "core/graph/blocks/graph_writer.h"
#include "core/graph/operators/operator_writer.h"

namespace llmtrain {

void write_graph(GraphWriter& writer, const EmbeddingSettings& embedding) {
  const ModelRecipe& model = writer.model();
  writer.make_value();
  writer.add_table("token.weight", model.vocab_size, padded_rows(model.vocab_size), true);
  // Learned positions do not decay and are not split: every tensor rank has all of them.
  if (embedding.has_positions) writer.add_table("position.weight", model.max_sequence_length, {}, false);
}

// The embedding rows are summed over the tensor ranks, each of which has a part of the vocabulary.
void write_operators(OperatorWriter& writer, const EmbeddingSettings& embedding) {
  const LocalShape& shape = writer.shape();
  const double elements = shape.tokens * shape.hidden;
  const bool has_positions = embedding.has_positions;
  // Forward: reads a row (and one of positions) and writes it. Backward: reads the gradient, and reads and writes rows
  // of the table's.
  Operator& lookup = writer.elementwise("lookup", (has_positions ? 3 : 2) * elements, 3 * elements);
  lookup.forward_working = lookup.backward_working = shape.element * shape.residual();
  writer.exchange_rows(lookup, Direction::backward, ends_exchange, Exposure::whole);
  if (writer.is_frozen("token.weight")) {
    // Only the tokens' gradient needs all rows; that of positions reads and adds once.
    std::erase_if(lookup.exchanges, [](const Exchange& each) { return each.direction == Direction::backward; });
    lookup.backward.elements = has_positions && !writer.is_frozen("position.weight") ? elements : 0;
  }
  // A GPU sorts the tokens: as many ids, and where each was, of eight bytes.
  if (writer.is_cuda()) lookup.backward_scratch = 2 * 8 * shape.tokens;
  if (embedding.dropout == 0) return;
  Operator& dropout = writer.elementwise("dropout", 2 * shape.residual(), 2 * shape.residual());
  if (!writer.is_own()) writer.save(dropout, "mask", dropout_mask_bytes * shape.residual(), Recompute::full);
}

}  // namespace llmtrain

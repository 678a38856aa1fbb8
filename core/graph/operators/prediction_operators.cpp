// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operators/operator_writer.h"

namespace llmtrain {

// Tensor ranks have all of the projection, of their rows.
void write_prediction_input(OperatorWriter& writer, const LayerSettings& layer) {
  const LocalShape& shape = writer.shape();
  const double rows = shape.element * shape.residual();
  const auto keep_statistics = [&](Operator& norm, const char* name) {
    if (writer.is_own()) writer.save(norm, name, OperatorWriter::statistics_bytes(layer.norm, shape.split_tokens));
  };
  // As the embedding's own (core/graph/blocks/embedding.cpp).
  Operator& lookup =
      writer.elementwise("prediction.lookup", 2 * shape.tokens * shape.hidden, 3 * shape.tokens * shape.hidden);
  lookup.forward_working = lookup.backward_working = rows;
  writer.exchange_rows(lookup, Direction::backward, ends_exchange, Exposure::whole);
  Operator& embedded = writer.norm("prediction.embedding_norm", layer.norm);
  writer.save(embedded, "prediction.embedded", rows);
  keep_statistics(embedded, "embedding_norm.statistics");
  Operator& hidden = writer.norm("prediction.hidden_norm", layer.norm);
  writer.save_input(hidden);
  keep_statistics(hidden, "hidden_norm.statistics");
  const char* weight = "projection.weight";
  Operator& projection =
      writer.linear("prediction.projection", {shape.split_tokens, shape.hidden, 2 * shape.hidden}, weight);
  writer.save_remade(projection, "prediction.normed", 2 * writer.input_bytes(weight) * shape.residual());
}

}  // namespace llmtrain

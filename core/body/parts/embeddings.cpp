// SPDX-License-Identifier: Apache-2.0
#include "core/body/parts/embeddings.h"

#include <vector>

#include "core/body/parts/linear.h"

namespace llmtrain::body {

TensorId write_embedding(BodyWriter& writer, const EmbeddingPart& part, AxisId sequences, AxisId tokens,
                         AxisId hidden) {
  const auto rows_of = [&](const char* field, const std::string& table, const std::string& axis, std::int64_t rows) {
    const TensorId weight = writer.parameter(table + ".weight", {writer.axis(axis, rows), hidden});
    return writer.named(writer.gather(weight, writer.field(field, {sequences, tokens})), table);
  };
  TensorId x = rows_of("token_ids", "token", "vocabulary", part.vocabulary);
  if (part.scale != 1) x = writer.named(writer.scale(x, part.scale), "token.scaled");
  std::vector<TensorId> summands{x};
  if (part.token_types > 0) summands.push_back(rows_of("token_types", "token_type", "types", part.token_types));
  if (part.positions > 0) {
    const AxisId positions = writer.axis("positions", part.positions);
    const TensorId table = writer.parameter("position.weight", {positions, hidden});
    summands.push_back(writer.named(writer.slice(table, positions, tokens, part.first_position), "position"));
  }
  if (summands.size() > 1) x = writer.named(writer.elementwise(ElementwiseKind::add, summands), "sum");
  if (part.norm) x = write_norm(writer, "norm", *part.norm, x);
  return write_dropout(writer, "embedding", part.dropout, x);
}

}  // namespace llmtrain::body

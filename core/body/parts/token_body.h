// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "core/body/body_writer.h"

namespace llmtrain::body {

// A body of rows of tokens, that is begun and ended alike in all families: the axes "sequences", "tokens" and "hidden",
// and the input "x" of these.
class TokenBody {
 public:
  TokenBody(std::int64_t sequence_count, std::int64_t length, std::int64_t features)
      : sequences(writer.axis("sequences", sequence_count)),
        tokens(writer.axis("tokens", length)),
        hidden(writer.axis("hidden", features)) {}

  TensorId x() { return writer.input("x", {sequences, tokens, hidden}); }
  // Rows of another sequence, such as an encoder's: the input "memory" [sequences, source, hidden].
  TensorId memory(std::int64_t source) {
    return writer.input("memory", {sequences, writer.axis("source", source), hidden});
  }
  Body finished(TensorId output) {
    writer.output(output);
    return writer.take();
  }

  BodyWriter writer{};
  AxisId sequences, tokens, hidden;
};

}  // namespace llmtrain::body

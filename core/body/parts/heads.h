// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/body/body_writer.h"

namespace llmtrain::body {

// What makes logits of rows of any axes whose last is hidden.

// The head of a masked language model (Devlin et al., arXiv 1810.04805): a linear layer "transform", its activation, a
// norm "norm", and logits by "head.weight" [vocabulary, hidden], which may be the embedding's table, with "head.bias".
struct MaskedLanguageHead {
  std::int64_t vocabulary = 1;
  ElementwiseKind activation = ElementwiseKind::gelu;
  Norm norm{};
};
TensorId write_masked_language_head(BodyWriter& writer, const MaskedLanguageHead& head, TensorId x);

// The first token of each sequence of x [sequences, tokens, hidden], through a linear layer "pooler" and tanh:
// [sequences, first, hidden], whose second axis has one element.
TensorId write_pooler(BodyWriter& writer, TensorId x);
// The same of rows that have been chosen.
TensorId write_pooler_of(BodyWriter& writer, TensorId rows);

// The first token of each sequence: [sequences, first, hidden].
TensorId write_first_token(BodyWriter& writer, TensorId x);

// Logits of classes by a linear layer "classifier", behind dropout.
struct ClassificationHead {
  std::int64_t classes = 2;
  double dropout = 0;
};
TensorId write_classification_head(BodyWriter& writer, const ClassificationHead& head, TensorId x);

// Logits of where a span of tokens starts and ends, by a linear layer "classifier" of x [sequences, tokens, hidden]:
// [sequences, edges, tokens]. What `padding` [sequences, tokens] has of each token is added to both of its logits.
TensorId write_span_head(BodyWriter& writer, TensorId x, TensorId padding);

}  // namespace llmtrain::body

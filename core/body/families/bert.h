// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/body/body.h"

namespace llmtrain::body {

// BERT (Devlin et al., arXiv 1810.04805), as transformers has it. The bodies' axes "sequences" and "tokens" begin the
// axes of their inputs, outputs and fields; with_extents() gives them others.
struct BertModel {
  std::int64_t hidden = 768, heads = 12, width = 3072;
  std::int64_t vocabulary = 30522, positions = 512, token_types = 2;
  ElementwiseKind activation = ElementwiseKind::gelu;
  double epsilon = 1e-12;
  double dropout = 0.1;            // of embeddings, and of what residuals add
  double attention_dropout = 0.1;  // of probabilities
};

// Reads the fields "token_ids" and "token_types".
Body bert_embedding(const BertModel& model, std::int64_t sequences, std::int64_t tokens);
// Reads the input "x", as all below do.
Body bert_layer(const BertModel& model, std::int64_t sequences, std::int64_t tokens);
// Logits [sequences, tokens, vocabulary].
Body bert_masked_language_head(const BertModel& model, std::int64_t sequences, std::int64_t tokens);
// Logits [sequences, first, classes] through the pooler, whose second axis has one element.
Body bert_classifier(const BertModel& model, std::int64_t classes, std::int64_t sequences, std::int64_t tokens);

}  // namespace llmtrain::body

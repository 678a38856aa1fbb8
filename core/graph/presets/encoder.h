// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/recipe/model_recipe.h"

namespace llmtrain {

class GraphWriter;

// Encoders that are trained to predict hidden tokens, or to tell classes: BERT (Devlin et al., arXiv 1810.04805) and
// RoBERTa (Liu et al., arXiv 1907.11692). All blocks are bodies:
//   embedding   rows of tables by token, position in the document and type, added, normed and dropped. All tokens are
//               of the first type, as those of a text that is not compared with another one, where samples have none.
//   layers.N    attention to all of the document and a feed-forward network, each followed by a norm of its sum with
//               what it reads
//   head        a linear layer, activation, norm, and logits by the embedding's table or one of its own, with a bias;
//               or with a classifier logits of classes, of each token or of the first one's pooled row, or by token of
//               where a span starts and ends
// Of their model's keys architecture, layers, hidden_size, heads, ffn_hidden_size, vocab_size, max_sequence_length,
// activation (but swiglu), norm_eps, dropout, tie_embeddings, init_std and classifier matter; rules refuse others
// (core/recipe/rules/rules_encoder.cpp).
void write_encoder(GraphWriter& writer);

// Rows of the table of types: two in BERT, one in RoBERTa.
constexpr std::int64_t token_types(Architecture architecture) { return architecture == Architecture::bert ? 2 : 1; }

}  // namespace llmtrain

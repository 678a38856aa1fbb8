// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/engine/forward_pass.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

// Which of a text's last hidden rows its embedding is made of.
enum class Pooling {
  mean,   // the mean of all tokens' (Reimers and Gurevych, Sentence-BERT, arXiv 1908.10084, section 3)
  first,  // the first token's, which stands for the class in BERT
  last,   // the last token's, the only one that has seen the whole text in a decoder
};

// Embeddings of texts: what transformers calls last_hidden_state, pooled, and divided by its length (L2). Each text has
// a pass of its own, so that an embedding has the same bits whatever other texts are asked for. On processors; not for
// threads. Ranks may share the model, which embed the same texts.
class TextEmbedder {
 public:
  // The model outlives this. Throws Error(bad_recipe) that names the key where the model is on a GPU or has no such
  // rows.
  TextEmbedder(LocalModel& model, Pooling pooling);

  // The most tokens of a text: of which tensor ranks have equally many.
  std::int64_t longest() const;

  // Throws Error(bad_data) where the text is empty, longer than longest(), or has ids that are not in the vocabulary.
  // From any thread.
  void require_fit(std::span<const std::int64_t> text) const;

  // [hidden_size], of length 1; computed in the compute type, pooled in float64; empty on ranks without the model's
  // last layer. Collective. Throws what require_fit() does.
  std::vector<float> embed(std::span<const std::int64_t> text);

 private:
  LocalModel& model_;
  Pooling pooling_;
  ForwardPass pass_;
};

}  // namespace llmtrain

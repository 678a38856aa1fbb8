// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace llmtrain {

enum class SentencePieceAlgorithm { bpe, unigram };

struct SentencePieceSettings {
  std::int64_t vocab_size = 0;  // <unk>, <s>, </s>, the special tokens and the 256 bytes included
  SentencePieceAlgorithm algorithm = SentencePieceAlgorithm::unigram;
  double character_coverage = 0.9995;       // share of the text whose characters become pieces; others become bytes
  std::vector<std::string> special_tokens;  // taken as one piece wherever a text has them; ids from 3 on
};

// Stores the next document, UTF-8, in the text; false where there are no more.
using NextDocument = std::function<bool(std::string& text)>;

// The content of a .model file of SentencePiece (Kudo and Richardson 2018, arXiv 1808.06226), made by its own trainer:
// byte-pair encoding, or the unigram language model (Kudo 2018, arXiv 1804.10959). As in the models of Llama 2, text is
// left as it is (no normalization, all spaces), pieces may consist of spaces, and characters without a piece are
// encoded as their bytes. Line ends separate what the trainer sees, as does its own U+2585; these and tabs are encoded
// as bytes. All text is in memory meanwhile; the result depends on the documents and settings alone, and is empty where
// there is no text. Throws what `next` throws, and Error(bad_recipe) that says which sizes are possible where the
// vocabulary's is not.
std::string train_sentencepiece(const NextDocument& next, const SentencePieceSettings& settings);

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/tokenizer/pieces/token_id.h"

namespace llmtrain {

// Makes tokens of words; it has memory of its own for speed: one object per thread.
class WordEncoder {
 public:
  virtual ~WordEncoder() = default;
  // Makes `ids` the tokens of a word, which is not empty and valid UTF-8, or, for a model that reads bytes, one byte.
  // Throws Error(bad_data) where the model has no token for a part of it.
  virtual void encode(std::string_view word, std::vector<TokenId>& ids) = 0;
};

// "model" of tokenizer.json. Immutable; threads share it.
class WordModel {
 public:
  virtual ~WordModel() = default;
  // The model outlives the encoder.
  virtual std::unique_ptr<WordEncoder> make_encoder() const = 0;
  // Whether bytes that are no UTF-8 have tokens of their own.
  virtual bool reads_bytes() const { return false; }
};

}  // namespace llmtrain

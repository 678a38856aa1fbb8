// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/tokenizer/pieces/json_fields.h"

namespace llmtrain {

// Where decoded tokens stand: at the beginning of a document, or after other text.
enum class DecodedPlace { beginning, continuation };

// One step of "decoder" in tokenizer.json, from parts of a text to others. Immutable; threads share it.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual void apply(std::vector<std::string>& parts, DecodedPlace place) const = 0;
};

// "decoder" of tokenizer.json, with the results of the `tokenizers` package, but that tokens of single bytes become
// these bytes also where they are no UTF-8.
class TextDecoder {
 public:
  // Joins tokens with spaces.
  TextDecoder() = default;
  // Joins the bytes that the characters of tokens stand for.
  static TextDecoder of_bytes();
  // Throws Error(bad_data) that names a type that is not supported, and its place.
  explicit TextDecoder(const JsonFields& section);

  // Whether it begins with making bytes of each token's characters, which can be done once for each.
  bool begins_with_bytes() const { return begins_with_bytes_; }

  // The text of tokens, whose characters are bytes already where begins_with_bytes().
  std::string decode(std::vector<std::string> tokens, DecodedPlace place) const;

 private:
  void add(const JsonFields& section);

  bool joins_with_spaces_ = true;
  bool begins_with_bytes_ = false;
  bool is_joined_ = false;  // by the steps so far
  std::vector<std::shared_ptr<const DecoderStep>> steps_;
};

}  // namespace llmtrain

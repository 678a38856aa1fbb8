// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "core/tokenizer/decoders/decoder.h"
#include "core/tokenizer/normalizers/text_replacement.h"

namespace llmtrain {

using TextParts = std::vector<std::string>;

// "BPEDecoder": the mark of a word's end becomes a space, but for the last.
class EndsWords final : public DecoderStep {
 public:
  explicit EndsWords(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(TextParts& parts, DecodedPlace place) const override;

 private:
  std::string suffix_;
};

// "ByteFallback": tokens such as <0x0A> become bytes.
class FallsBackToBytes final : public DecoderStep {
 public:
  void apply(TextParts& parts, DecodedPlace place) const override;
};

// "ByteLevel": characters become the bytes that they stand for, and all parts one.
class ReadsBytes final : public DecoderStep {
 public:
  void apply(TextParts& parts, DecodedPlace place) const override;
};

// "Fuse": all parts become one.
class Fuses final : public DecoderStep {
 public:
  void apply(TextParts& parts, DecodedPlace place) const override;
};

// "Metaspace": its mark becomes a space, but at a document's beginning, where the pre-tokenizer put it.
class ReadsMetaspace final : public DecoderStep {
 public:
  explicit ReadsMetaspace(const JsonFields& section);
  void apply(TextParts& parts, DecodedPlace place) const override;

 private:
  std::string mark_;
  bool drops_first_;
};

// "Replace".
class ReplacesText final : public DecoderStep {
 public:
  explicit ReplacesText(TextReplacement replacement) : replacement_(std::move(replacement)) {}
  void apply(TextParts& parts, DecodedPlace place) const override;

 private:
  TextReplacement replacement_;
};

// "Strip": up to so many of a character at the ends of each part.
class StripsParts final : public DecoderStep {
 public:
  // `is_joined`: the one part is the whole text, so that what stands after other text has no beginning.
  StripsParts(const JsonFields& section, bool is_joined);
  void apply(TextParts& parts, DecodedPlace place) const override;

 private:
  std::string content_;
  std::size_t start_;
  std::size_t stop_;
  bool is_joined_;
};

// "WordPiece": words are set apart by spaces; with "cleanup" there is none before punctuation and contractions.
class JoinsWordPieces final : public DecoderStep {
 public:
  explicit JoinsWordPieces(const JsonFields& section);
  void apply(TextParts& parts, DecodedPlace place) const override;

 private:
  std::string prefix_;
  bool cleans_up_;
};

}  // namespace llmtrain

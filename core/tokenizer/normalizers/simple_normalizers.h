// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "core/tokenizer/normalizers/normal_forms.h"
#include "core/tokenizer/normalizers/normalizer.h"
#include "core/tokenizer/normalizers/text_replacement.h"

namespace llmtrain {

// "ByteLevel": each byte becomes the visible character that stands for it.
class WritesBytes final : public NormalizerStep {
 public:
  void apply(NormalizedText& text) const override;
};

// "Lowercase", character by character: a sigma at a word's end is as any other.
class LowersCase final : public NormalizerStep {
 public:
  void apply(NormalizedText& text) const override;
};

// "NFC" and its like.
class TakesNormalForm final : public NormalizerStep {
 public:
  explicit TakesNormalForm(NormalForm form) : form_(form) {}
  void apply(NormalizedText& text) const override;

 private:
  NormalForm form_;
};

// "Nmt": what SentencePiece's rules for machine translation take out or make a space.
class CleansForTranslation final : public NormalizerStep {
 public:
  void apply(NormalizedText& text) const override;
};

// "Prepend": before a text that is not empty.
class Prepends final : public NormalizerStep {
 public:
  explicit Prepends(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(NormalizedText& text) const override;

 private:
  std::string prefix_;
};

// "Replace".
class Replaces final : public NormalizerStep {
 public:
  explicit Replaces(const JsonFields& section) : replacement_(section) {}
  void apply(NormalizedText& text) const override;

 private:
  TextReplacement replacement_;
};

// "Strip": white space at either end.
class Strips final : public NormalizerStep {
 public:
  explicit Strips(const JsonFields& section);
  void apply(NormalizedText& text) const override;

 private:
  bool left_;
  bool right_;
};

// "StripAccents": all combining marks.
class StripsAccents final : public NormalizerStep {
 public:
  void apply(NormalizedText& text) const override;
};

// Appends the full lower case of a character.
void append_lower_case(char32_t code, std::string& text);

}  // namespace llmtrain

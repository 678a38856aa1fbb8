// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/tokenizer/pieces/json_fields.h"

namespace llmtrain {

// A text, or a part of one between added tokens, on its way to words.
struct NormalizedText {
  std::string text;      // valid UTF-8
  bool begins_at_start;  // whether its first character is made of the whole text's first, as a Metaspace may ask
};

// One step of "normalizer" in tokenizer.json. Immutable; threads share it.
class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  virtual void apply(NormalizedText& text) const = 0;
};

// "normalizer" of tokenizer.json, with the results of the `tokenizers` package.
class Normalizer {
 public:
  // Changes nothing.
  Normalizer() = default;
  // Throws Error(bad_data) that names a type that is not supported, and its place.
  explicit Normalizer(const JsonFields& section);

  bool changes_nothing() const { return steps_.empty(); }
  void apply(NormalizedText& text) const;
  std::string normalized(std::string text) const;

 private:
  void add(const JsonFields& section);

  std::vector<std::shared_ptr<const NormalizerStep>> steps_;
};

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tokenizer/normalizers/normalizer.h"

namespace llmtrain {

// "BertNormalizer", the cleaning of BERT's BasicTokenizer: control characters go, white space becomes a space, Chinese
// characters stand between spaces, accents go and letters become lower case, each of them where it is asked for.
class BertNormalizer final : public NormalizerStep {
 public:
  explicit BertNormalizer(const JsonFields& section);
  void apply(NormalizedText& text) const override;

 private:
  bool cleans_text_;
  bool separates_chinese_;
  bool lowers_case_;
  bool strips_accents_;
};

}  // namespace llmtrain

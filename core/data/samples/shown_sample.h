// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/data/samples/dataset.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// A sample as the text of its tokens, for people.
struct ShownSample {
  // Consecutive tokens that all count in the loss, or of which none does.
  struct Part {
    std::string text;  // bytes of the tokens: not UTF-8 where it begins or ends within a character
    bool counts = false;
    std::string hidden{};  // of one token that is another one to the model: the token that it is to tell

    bool operator==(const Part&) const = default;
  };
  struct Document {
    std::string name{};  // "source" or "target", of pairs
    std::int64_t tokens = 0, counted = 0;
    std::vector<Part> parts;
  };
  std::vector<Document> documents;
  std::int64_t padding = 0;  // tokens
};

// Sample `number` in the order of training. A token counts if predicting it does; a document's first one is not
// predicted, and its last one is seen only if it counts. Of text and token files all tokens count, and only those of
// the sample are shown. Of masked texts it is what the model sees; of pairs it
// is the source, and then the target, of which all tokens count; of questions it is the window, of which the answer's
// tokens count, or where there is none the first one. Throws what reading the dataset does.
ShownSample shown_sample(const Dataset& dataset, std::int64_t number, const Tokenizer& tokenizer);

}  // namespace llmtrain

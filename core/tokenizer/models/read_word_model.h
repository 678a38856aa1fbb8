// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/tokenizer/models/bpe_model.h"

namespace llmtrain {

// "model" of tokenizer.json: BPE, WordPiece, Unigram or WordLevel; files that are older than its "type" have BPE. The
// vocabulary outlives the model. Throws Error(bad_data) that names what is not supported, and its place.
std::unique_ptr<const WordModel> read_word_model(const JsonFields& section, const Vocabulary& vocabulary,
                                                 BpeModel::Parts parts);

// Whether a model of BPE whose words' bytes are written as characters can be read as one of bytes.
bool can_read_bytes(const JsonFields& section);

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/tokenizer/sentencepiece/sentencepiece_model.h"

namespace llmtrain {

// Why no tokenizer.json can say what the model does; nothing where one can.
std::optional<std::string> reason_against_json(const SentencePieceModel& model);

// A tokenizer.json of Hugging Face's `tokenizers` that gives the model's ids, for which reason_against_json() has
// nothing: texts begin with the piece `begin`, unless there is none. Control pieces are special tokens, which are found
// in texts unless "split_special_tokens" of tokenizer_config.json says that they are text, as SentencePiece has it.
//
// Four kinds of texts have other ids. Of segmentations by a unigram language model that are equally likely, as "ab a"
// and "a ba", each program takes one. A text between two user-defined pieces that is written like a control piece is
// that piece; so is, for a unigram language model, one whose characters are no pieces by themselves. And a table of
// characters is applied to groups of characters, by `tokenizers`, to the longest beginning by SentencePiece.
nlohmann::ordered_json json_of_sentencepiece(const SentencePieceModel& model, std::optional<std::int64_t> begin);

}  // namespace llmtrain

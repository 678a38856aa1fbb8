// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/models/read_word_model.h"

#include <string>

#include "core/tokenizer/models/unigram_model.h"
#include "core/tokenizer/models/word_level_model.h"
#include "core/tokenizer/models/word_piece_model.h"

namespace llmtrain {
namespace {

std::string kind_of(const JsonFields& section) {
  if (section.has("type")) return section.text("type");
  // Old files do not name it.
  return section.has("merges") ? "BPE" : section.has("unk_id") ? "Unigram" : "WordPiece";
}

}  // namespace

std::unique_ptr<const WordModel> read_word_model(const JsonFields& section, const Vocabulary& vocabulary,
                                                 BpeModel::Parts parts) {
  const std::string kind = kind_of(section);
  if (kind == "BPE") return std::make_unique<BpeModel>(section, vocabulary, parts);
  if (kind == "WordPiece") return std::make_unique<WordPieceModel>(section, vocabulary);
  if (kind == "Unigram") return std::make_unique<UnigramModel>(section, vocabulary);
  if (kind == "WordLevel") return std::make_unique<WordLevelModel>(section, vocabulary);
  section.fail("\"" + kind + "\" is not supported; supported are BPE, WordPiece, Unigram and WordLevel");
}

bool can_read_bytes(const JsonFields& section) {
  if (kind_of(section) != "BPE" || section.flag("byte_fallback", false)) return false;
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (section.has(key) && !section.text(key).empty()) return false;
  return true;
}

}  // namespace llmtrain

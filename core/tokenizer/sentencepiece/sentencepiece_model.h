// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmtrain {

// What a .model file of SentencePiece says: the fields of its sentencepiece_model.proto that decide which ids a text
// has. The library reads them too, and does not show them.
struct SentencePieceModel {
  enum class Algorithm : std::uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };
  enum class PieceType : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
  };

  std::vector<Piece> pieces;  // by id
  Algorithm algorithm = Algorithm::unigram;
  bool falls_back_to_bytes = false;
  bool puts_space_behind = false;  // spaces end words, instead of beginning them
  std::string characters;          // the table of its normalizer, "precompiled_charsmap"; empty for none
  bool puts_space_first = true;    // before a text that is not empty
  bool removes_spaces = true;      // at both ends, and of several all but one
  bool marks_spaces = true;        // as U+2581
};

// Throws std::invalid_argument where `content` is no such file.
SentencePieceModel read_sentencepiece_model(std::string_view content);

// The id of the first piece for what is unknown; the number of pieces where there is none.
std::size_t unknown_id(const SentencePieceModel& model);

}  // namespace llmtrain

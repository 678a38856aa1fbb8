// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// The bytes of a text that a token is made of.
struct TextPlace {
  std::size_t begin = 0, end = 0;

  bool operator==(const TextPlace&) const = default;
};

// Turns text into ids, and says where each of them stands in the text, whatever a tokenizer changes in it before: a
// word's first tokens are the tokens of its beginning, whose length is tried out. That holds of WordPiece, which takes
// the longest piece first, of BPE, of which no merge has crossed the end of a token, and of Unigram, as a part of the
// likeliest pieces are the likeliest of that part. Text is cut where white space begins, as tokenizers of words do.
class PlacedEncoder {
 public:
  // The tokenizer outlives this.
  explicit PlacedEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer), encoder_(tokenizer.make_encoder()) {}

  // Appends the ids of a text and their places, which leave out white space before a token. Tokens that share a
  // character have all of it; one that is made of nothing is empty. Where the length of a beginning cannot be found,
  // tokens stand as they are written, and of a word that is written otherwise each has all. Throws what
  // TextEncoder::encode() does.
  void encode(std::string_view text, std::vector<TokenId>& ids, std::vector<TextPlace>& places);

 private:
  struct Placed {
    std::vector<TokenId> ids;
    std::vector<TextPlace> places;  // in the word
  };

  const Placed& placed(std::string_view word);
  std::vector<TokenId> tokens_of(std::string_view text);
  // Adds to `ends` how far into a word each of its tokens but the last reaches, where that can be told.
  void find_ends(std::string_view word, std::size_t begin, const std::vector<TokenId>& ids, std::size_t first,
                 std::vector<std::size_t>& ends);

  void share(std::string_view word, std::span<const TokenId> ids, std::size_t begin, std::size_t end,
             std::vector<TextPlace>& places) const;
  // Without characters at its ends of which no token is made, such as accents that a tokenizer leaves out.
  TextPlace trimmed(std::string_view word, TextPlace place);

  const Tokenizer& tokenizer_;
  std::unique_ptr<TextEncoder> encoder_;
  std::unordered_map<std::string, Placed> words_;  // that were met lately
};

}  // namespace llmtrain

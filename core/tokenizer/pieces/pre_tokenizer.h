// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "core/tokenizer/pieces/json_fields.h"
#include "core/tokenizer/pieces/regex.h"

namespace llmtrain {

// What becomes of the places where a step cuts: they go, are pieces, belong to the piece before or after, or stay
// together with others of their kind ("behavior" of tokenizer.json).
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// Cuts text into words, within which a model makes tokens: "pre_tokenizer" of tokenizer.json. Its steps run one after
// another, each on the pieces of the one before.
class PreTokenizer {
 public:
  // The whole text is one word.
  PreTokenizer() = default;
  // Throws Error(bad_data) that names a type that is not supported, and its place.
  explicit PreTokenizer(const JsonFields& section);

  // Characters of which `is_place` holds are cut at.
  struct CharacterCut {
    bool (*is_place)(char32_t) = nullptr;
  };
  struct DelimiterCut {
    char32_t delimiter = 0;
  };
  // Each row of characters of one class is a piece; those of a class below zero go.
  struct ClassCut {
    int (*class_of)(char32_t) = nullptr;
  };
  // A piece begins where a character is of another script than those before it; what is before the first that is of one
  // goes.
  struct ScriptCut {
    int (*script_of)(char32_t) = nullptr;
  };
  struct LengthCut {
    std::size_t characters = 0;
  };
  enum class Prefix { never, first, always };  // first: at the beginning of the whole text

  struct Step {
    std::string replaces_spaces{};  // with this text, unless it is empty
    Prefix prefix = Prefix::never;  // put before a piece that does not begin with it
    std::string prefix_text{};
    // Where it cuts; nowhere by monostate.
    std::variant<std::monostate, Regex, CharacterCut, DelimiterCut, ClassCut, ScriptCut, LengthCut> cut{};
    bool is_inverted = false;  // what is between two places is one
    SplitBehavior behavior = SplitBehavior::isolated;
    bool writes_bytes = false;  // as the visible characters that stand for them
  };
  const std::vector<Step>& steps() const { return steps_; }

  // Whether each word's bytes are written as characters at the end, ByteLevel being the last step.
  bool ends_with_bytes() const { return !steps_.empty() && steps_.back().writes_bytes; }
  // Leaves that to a model that reads bytes.
  void keep_bytes() { steps_.back().writes_bytes = false; }

 private:
  void add(const JsonFields& section);
  void add_sequence(const JsonFields& section);

  std::vector<Step> steps_;
};

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/recipe/recipe.h"

namespace llmtrain {

enum class Presence { optional, required };

// Properties of a key in addition to its type and its member.
struct Key {
  std::string_view name;
  std::string_view help;
  // Description of a default that depends on other keys; empty when the default is the member's initialiser.
  std::string default_words{};
  Presence presence = Presence::optional;
};

// Both ends belong to the range.
struct IntegerRange {
  std::int64_t minimum = 0;
  std::int64_t maximum = 0;
};

enum class RangeEnds { closed, open_minimum, open_maximum };

struct NumberRange {
  double minimum = 0;
  double maximum = 0;
  RangeEnds ends = RangeEnds::closed;
};

using Words = std::span<const std::string_view>;

enum class TextKind {
  plain,             // any text
  schema_link,       // any text, left out when empty
  name,              // usable as a folder's name
  path,              // resolved against the recipe's folder
  path_or_name,      // a path when it has a slash or ends in .json, else a name that is left alone
  working_path,      // relative to the working directory, left as it is
  checkpoint_source  // a path, or "hf:" and a path
};

struct TextRule {
  TextKind kind = TextKind::plain;
  Words words{};  // words that are not paths
};

inline constexpr std::array<std::string_view, 2> tokenizer_file_keys = {"sentencepiece", "huggingface"};
inline constexpr std::array<std::string_view, 2> balance_words = {"layers", "blocks"};

// One pass over the key table. Reading, writing, schema and reference are one visitor each; the table calls it with
// every key in order and the member that the key fills.
class KeyVisitor {
 public:
  enum class Defaults { fill, keep };

  explicit KeyVisitor(Defaults defaults) : defaults_(defaults) {}
  virtual ~KeyVisitor() = default;
  KeyVisitor(const KeyVisitor&) = delete;
  KeyVisitor& operator=(const KeyVisitor&) = delete;

  virtual void integer(const Key& key, std::int64_t& field, IntegerRange range) = 0;
  // A whole number or "auto".
  virtual void automatic_integer(const Key& key, std::optional<std::int64_t>& field, IntegerRange range) = 0;
  virtual void number(const Key& key, double& field, NumberRange range) = 0;
  virtual void boolean(const Key& key, bool& field) = 0;
  virtual void text(const Key& key, std::string& field, const TextRule& rule) = 0;
  // A text or null.
  virtual void nullable_text(const Key& key, std::optional<std::string>& field, const TextRule& rule) = 0;
  virtual void tokenizer(const Key& key, TokenizerRecipe& field) = 0;
  virtual void balance(const Key& key, BalanceRecipe& field, IntegerRange range) = 0;

  // One of `words`. An enum's values are in the order of the words; a string holds the word itself.
  template <class Field>
  void choice(const Key& key, Field& field, Words words) {
    std::size_t index = 0;
    if constexpr (std::is_enum_v<Field>) {
      index = static_cast<std::size_t>(field);
    } else {
      while (index + 1 < words.size() && words[index] != field) ++index;
    }
    word(key, index, words);
    if constexpr (std::is_enum_v<Field>) {
      field = static_cast<Field>(index);
    } else {
      field = words[index];
    }
  }

  // An object; `body` visits its keys.
  template <class Body>
  void section(const Key& key, Body body) {
    enter_section(key);
    body();
    leave_section();
  }

  // An object or null.
  template <class Section, class Body>
  void optional_section(const Key& key, std::optional<Section>& field, Body body) {
    if (!enter_optional_section(key, field.has_value())) {
      field.reset();
      return;
    }
    if (!field) field.emplace();
    body(*field);
    leave_section();
  }

  // A list of objects.
  template <class List, class Body>
  void list(const Key& key, List& field, Body body) {
    field.resize(enter_list(key, field.size()));
    for (std::size_t i = 0; i < field.size(); ++i) {
      enter_entry(i);
      body(field[i]);
      leave_section();
    }
    leave_list();
  }

  // The member, after assigning a default that depends on other keys (where this pass fills defaults).
  template <class Field, class Value>
  Field& otherwise(Field& field, Value&& value) const {
    if (defaults_ == Defaults::fill) field = std::forward<Value>(value);
    return field;
  }

 protected:
  virtual void word(const Key& key, std::size_t& index, Words words) = 0;
  virtual void enter_section(const Key& key) = 0;
  virtual bool enter_optional_section(const Key& key, bool present) = 0;  // whether to visit its keys
  virtual std::size_t enter_list(const Key& key, std::size_t size) = 0;   // how many entries to visit
  virtual void enter_entry(std::size_t index) = 0;
  virtual void leave_section() = 0;  // also the end of an entry
  virtual void leave_list() = 0;

 private:
  Defaults defaults_;
};

}  // namespace llmtrain

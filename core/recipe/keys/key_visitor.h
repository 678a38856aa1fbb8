// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/json/json_text.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// required_without_…: may be left out where the key of that name in the section is given; required_of_tokens: where
// `from` or `image` is; required_of_transformers: where `from` or `resnet` is.
enum class Presence {
  optional,
  required,
  required_without_from,
  required_of_tokens,
  required_of_transformers,
  required_without_epochs
};

// The keys of the section in whose presence a required key may be left out.
std::span<const std::string_view> stand_ins(Presence presence);

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

inline constexpr std::array<std::string_view, 2> balance_words = {"layers", "blocks"};

enum class TextKind {
  plain,             // any text
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

// "\"a\", \"b\" or \"c\"", in messages and the reference.
std::string choice_words(Words words);

// The shortest decimal that reads back as the same number.
std::string number_words(double value);

class WrittenValue;  // core/recipe/recipe_reader.h

// What passes do with a key that is not a section.
struct KeyValue {
  std::string words;                              // the values that it accepts: "a whole number from 1 to 8"
  Json json;                                      // what its member holds
  std::function<Json()> schema;                   // JSON Schema of the values
  std::function<void(const WrittenValue&)> read;  // into the member; a wrong value leaves the default and one problem
  Words file_keys{};                              // of an object that the value may also be; each names a file
  std::string_view file_help{};
};

// One pass over the key table. Reading, writing, schema and reference are one visitor each; the table calls it with
// every key in order and the member that the key fills.
class KeyVisitor {
 public:
  enum class Defaults { fill, keep };

  explicit KeyVisitor(Defaults defaults) : defaults_(defaults) {}
  virtual ~KeyVisitor() = default;
  KeyVisitor(const KeyVisitor&) = delete;
  KeyVisitor& operator=(const KeyVisitor&) = delete;

  void integer(const Key& key, std::int64_t& field, IntegerRange range);
  // A whole number or "auto".
  void automatic_integer(const Key& key, std::optional<std::int64_t>& field, IntegerRange range);
  void number(const Key& key, double& field, NumberRange range);
  void boolean(const Key& key, bool& field);
  void text(const Key& key, std::string& field, const TextRule& rule);
  // A number or null.
  void nullable_number(const Key& key, std::optional<double>& field, NumberRange range);
  // A text or null.
  void nullable_text(const Key& key, std::optional<std::string>& field, const TextRule& rule);
  // A list of texts that are not empty; `words` say what they are: "a list of names".
  void texts(const Key& key, std::vector<std::string>& field, std::string_view words);
  void tokenizer(const Key& key, TokenizerRecipe& field);
  void chat_template(const Key& key, ChatTemplateRecipe& field);
  void balance(const Key& key, BalanceRecipe& field, IntegerRange range);
  // One of `words` for all layers, or an object that lists layers by word: {"full": [0, "4-7"]}.
  void recompute(const Key& key, MemoryRecipe& memory, Words words, IntegerRange layers);

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

  // false, true or one of `words`, which an enum's values are in the order of.
  template <class Field>
  void word_or_boolean(const Key& key, Field& field, Words words) {
    auto index = static_cast<std::size_t>(field);
    boolean_or_word(key, index, words);
    field = static_cast<Field>(index);
  }

  // An object; `body` visits its keys.
  template <class Body>
  void section(const Key& key, Body body) {
    enter(key, Section::object, 1);
    body();
    leave();
  }

  // An object or null.
  template <class Field, class Body>
  void optional_section(const Key& key, std::optional<Field>& field, Body body) {
    if (enter(key, Section::optional_object, field.has_value() ? 1 : 0) == 0) {
      field.reset();
      return;
    }
    if (!field) field.emplace();
    body(*field);
    leave();
  }

  // A list of objects.
  template <class List, class Body>
  void list(const Key& key, List& field, Body body) {
    field.resize(enter(key, Section::list, field.size()));
    for (std::size_t i = 0; i < field.size(); ++i) {
      enter_entry(i);
      body(field[i]);
      leave();
    }
    leave();
  }

  // The member, after assigning a default that depends on other keys (where this pass fills defaults).
  template <class Field, class Value>
  Field& otherwise(Field& field, Value&& value) const {
    if (defaults_ == Defaults::fill) field = std::forward<Value>(value);
    return field;
  }

 protected:
  enum class Section { object, optional_object, list };

  virtual void value(const Key& key, const KeyValue& value) = 0;
  // How many objects to visit, where the recipe has `size` of them. With none an optional object is not entered.
  virtual std::size_t enter(const Key& key, Section section, std::size_t size) = 0;
  virtual void enter_entry(std::size_t index) = 0;
  virtual void leave() = 0;  // an object, a list, or an entry of a list

 private:
  void word(const Key& key, std::size_t& index, Words words);
  void boolean_or_word(const Key& key, std::size_t& index, Words words);

  Defaults defaults_;
};

}  // namespace llmtrain

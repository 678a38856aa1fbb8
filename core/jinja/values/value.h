// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/json/json_text.h"

namespace llmtrain::jinja {

class Object;
struct Items;
struct Entries;

// What a name or a key without a value stands for: it prints as nothing, and most uses of it are refused with `why`.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

struct None {};

// UTF-8, shared and never changed. is_markup: made by the filters safe and escape; what is added to it is escaped.
struct Text {
  std::shared_ptr<const std::string> bytes;
  bool is_markup = false;
};

struct List {
  std::shared_ptr<const Items> items;
};

struct Tuple {
  std::shared_ptr<const Items> items;
};

struct Dictionary {
  std::shared_ptr<const Entries> entries;
};

// A value as Python has it. Copies share what they hold. Lists, tuples and dictionaries are never changed, as in
// Jinja's immutable sandbox; of objects (core/jinja/values/object.h) a namespace alone is.
struct Value {
  std::variant<Undefined, None, bool, std::int64_t, double, Text, List, Tuple, Dictionary, std::shared_ptr<Object>>
      data;

  template <typename Type>
  const Type* as() const {
    return std::get_if<Type>(&data);
  }
  template <typename Type>
  bool is() const {
    return std::holds_alternative<Type>(data);
  }
};

struct Items {
  std::vector<Value> values;
  int depth = 1;  // of containers in containers, this one included
};

struct Entries {
  std::vector<std::pair<Value, Value>> pairs;  // in the order in which the keys came
  int depth = 1;
};

// More than this many containers in containers are refused: printing and destroying them is recursive.
inline constexpr int deepest_value = 200;
// Bytes of the longest text that an operation makes.
inline constexpr std::size_t longest_text = std::size_t{256} << 20;

Value undefined(std::string why);
Value none();
Value boolean(bool value);
Value integer(std::int64_t value);
Value integer_of_size(std::size_t value);
Value number(double value);
// Refuses what is longer than longest_text.
Value text(std::string bytes);
// Refuse what is deeper than deepest_value.
Value list(std::vector<Value> values);
Value tuple(std::vector<Value> values);
// Keys that are given again keep their place and take the later value; a key that cannot be hashed is refused.
Value dictionary(const std::vector<std::pair<Value, Value>>& pairs);
Value object(std::shared_ptr<Object> object);

// Integers beyond 64 bits are refused.
Value value_of(const Json& json);

// The text of a value that is one, else null.
const std::string* text_of(const Value& value);
// The elements of a list or a tuple, else null.
const std::vector<Value>* elements_of(const Value& value);
// The value at a key of the dictionary, else null.
const Value* find(const Dictionary& dictionary, const Value& key);

bool is_true(const Value& value);
// As Python's type(value).__name__.
std::string type_name(const Value& value);
int depth_of(const Value& value);

}  // namespace llmtrain::jinja

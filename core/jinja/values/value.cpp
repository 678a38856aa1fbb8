// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/values/value.h"

#include <algorithm>
#include <limits>

#include "core/jinja/values/comparison.h"
#include "core/jinja/values/object.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {
namespace {

void check_depth(int depth) {
  if (depth > deepest_value) throw Refused("containers are nested too deeply");
}

std::shared_ptr<const Items> items_of(std::vector<Value> values) {
  auto items = std::make_shared<Items>();
  for (const Value& value : values) items->depth = std::max(items->depth, 1 + depth_of(value));
  check_depth(items->depth);
  items->values = std::move(values);
  return items;
}

// The pairs' end where none has the key.
template <typename Pairs>
auto find_pair(Pairs& pairs, const Value& key) {
  return std::ranges::find_if(pairs, [&](const auto& pair) { return are_equal(pair.first, key); });
}

}  // namespace

Value undefined(std::string why) { return {Undefined{std::make_shared<const std::string>(std::move(why))}}; }
Value none() { return {None{}}; }
Value boolean(bool value) { return {value}; }
Value integer(std::int64_t value) { return {value}; }
Value integer_of_size(std::size_t value) { return {static_cast<std::int64_t>(value)}; }
Value number(double value) { return {value}; }

Value text(std::string bytes) {
  if (bytes.size() > longest_text) throw Refused("a text is longer than 256 MiB");
  return {Text{std::make_shared<const std::string>(std::move(bytes)), false}};
}

Value list(std::vector<Value> values) { return {List{items_of(std::move(values))}}; }
Value tuple(std::vector<Value> values) { return {Tuple{items_of(std::move(values))}}; }
Value object(std::shared_ptr<Object> object) { return {std::move(object)}; }

Value dictionary(const std::vector<std::pair<Value, Value>>& pairs) {
  auto entries = std::make_shared<Entries>();
  for (const auto& [key, value] : pairs) {
    check_is_hashable(key);
    entries->depth = std::max({entries->depth, 1 + depth_of(key), 1 + depth_of(value)});
    const auto known = find_pair(entries->pairs, key);
    if (known != entries->pairs.end()) {
      known->second = value;
    } else {
      entries->pairs.emplace_back(key, value);
    }
  }
  check_depth(entries->depth);
  return {Dictionary{std::move(entries)}};
}

Value value_of(const Json& json) {
  if (json.is_null()) return none();
  if (json.is_boolean()) return boolean(json.get<bool>());
  if (json.is_string()) return text(json.get_ref<const std::string&>());
  if (json.is_number_unsigned()) {
    const auto number = json.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      throw Refused("an integer is beyond 64 bits");
    return integer(static_cast<std::int64_t>(number));
  }
  if (json.is_number_integer()) return integer(json.get<std::int64_t>());
  if (json.is_number()) return number(json.get<double>());
  if (json.is_array()) {
    std::vector<Value> values;
    values.reserve(json.size());
    for (const Json& each : json) values.push_back(value_of(each));
    return list(std::move(values));
  }
  if (!json.is_object()) throw Refused("a value is no JSON");
  auto entries = std::make_shared<Entries>();
  for (const auto& [key, each] : json.items()) {
    entries->pairs.emplace_back(text(key), value_of(each));
    entries->depth = std::max(entries->depth, 1 + depth_of(entries->pairs.back().second));
  }
  check_depth(entries->depth);
  return {Dictionary{std::move(entries)}};
}

const std::string* text_of(const Value& value) {
  const auto* text = value.as<Text>();
  return text ? text->bytes.get() : nullptr;
}

const std::vector<Value>* elements_of(const Value& value) {
  if (const auto* list = value.as<List>()) return &list->items->values;
  if (const auto* tuple = value.as<Tuple>()) return &tuple->items->values;
  return nullptr;
}

const Value* find(const Dictionary& dictionary, const Value& key) {
  const auto found = find_pair(dictionary.entries->pairs, key);
  return found == dictionary.entries->pairs.end() ? nullptr : &found->second;
}

bool is_true(const Value& value) {
  if (const auto* flag = value.as<bool>()) return *flag;
  if (const auto* number = value.as<std::int64_t>()) return *number != 0;
  if (const auto* number = value.as<double>()) return *number != 0;
  if (const auto* text = text_of(value)) return !text->empty();
  if (const auto* elements = elements_of(value)) return !elements->empty();
  if (const auto* dictionary = value.as<Dictionary>()) return !dictionary->entries->pairs.empty();
  if (const auto* object = value.as<std::shared_ptr<Object>>()) return (*object)->is_true();
  return false;
}

std::string type_name(const Value& value) {
  if (value.is<Undefined>()) return "Undefined";
  if (value.is<None>()) return "NoneType";
  if (value.is<bool>()) return "bool";
  if (value.is<std::int64_t>()) return "int";
  if (value.is<double>()) return "float";
  if (const auto* text = value.as<Text>()) return text->is_markup ? "Markup" : "str";
  if (value.is<List>()) return "list";
  if (value.is<Tuple>()) return "tuple";
  if (value.is<Dictionary>()) return "dict";
  return std::get<std::shared_ptr<Object>>(value.data)->type();
}

int depth_of(const Value& value) {
  if (const auto* list = value.as<List>()) return list->items->depth;
  if (const auto* tuple = value.as<Tuple>()) return tuple->items->depth;
  if (const auto* dictionary = value.as<Dictionary>()) return dictionary->entries->depth;
  if (const auto* object = value.as<std::shared_ptr<Object>>()) return (*object)->depth();
  return 0;
}

}  // namespace llmtrain::jinja

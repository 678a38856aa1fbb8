// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/values/iteration.h"

#include <algorithm>

#include "core/jinja/values/object.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

class ElementIterator : public Iterator {
 public:
  ElementIterator(std::shared_ptr<const Items> items, bool is_backwards)
      : items_(std::move(items)), is_backwards_(is_backwards) {}

  std::optional<Value> next() override {
    const auto& values = items_->values;
    if (position_ >= values.size()) return std::nullopt;
    const std::size_t place = is_backwards_ ? values.size() - 1 - position_ : position_;
    ++position_;
    return values[place];
  }

 private:
  std::shared_ptr<const Items> items_;
  bool is_backwards_;
  std::size_t position_ = 0;
};

std::unique_ptr<Iterator> iterator_over_items(std::vector<Value> values, bool is_backwards) {
  auto items = std::make_shared<Items>();
  items->values = std::move(values);
  return std::make_unique<ElementIterator>(std::move(items), is_backwards);
}

std::shared_ptr<const Items> shared_items(const Value& value) {
  if (const auto* list = value.as<List>()) return list->items;
  if (const auto* tuple = value.as<Tuple>()) return tuple->items;
  return nullptr;
}

std::vector<Value> keys_of(const Dictionary& dictionary) {
  std::vector<Value> keys;
  for (const auto& [key, value] : dictionary.entries->pairs) keys.push_back(key);
  return keys;
}

std::vector<Value> characters_of(std::string_view bytes) {
  std::vector<Value> values;
  for (const char32_t character : decoded(bytes)) values.push_back(text(encoded({&character, 1})));
  return values;
}

std::unique_ptr<Iterator> iterator_or_null(const Value& value, bool is_backwards) {
  if (auto items = shared_items(value)) return std::make_unique<ElementIterator>(std::move(items), is_backwards);
  if (const auto* dictionary = value.as<Dictionary>()) return iterator_over_items(keys_of(*dictionary), is_backwards);
  if (const auto* text = text_of(value)) return iterator_over_items(characters_of(*text), is_backwards);
  if (const auto* object = value.as<std::shared_ptr<Object>>())
    return is_backwards ? (*object)->iterate_backwards() : (*object)->iterate();
  if (value.is<Undefined>() && !is_backwards) return iterator_over_items({}, false);
  return nullptr;
}

}  // namespace

std::unique_ptr<Iterator> iterate(const Value& value) {
  auto iterator = iterator_or_null(value, false);
  if (!iterator) throw Refused("'" + type_name(value) + "' object is not iterable");
  return iterator;
}

std::unique_ptr<Iterator> iterate_backwards(const Value& value) { return iterator_or_null(value, true); }

std::vector<Value> all_of(const Value& value) {
  if (const auto* elements = elements_of(value)) return *elements;
  std::vector<Value> values;
  const auto iterator = iterate(value);
  while (auto each = iterator->next()) values.push_back(std::move(*each));
  return values;
}

bool is_iterable(const Value& value) { return iterator_or_null(value, false) != nullptr; }

std::optional<std::size_t> length_of(const Value& value) {
  if (const auto* text = text_of(value)) return character_count(*text);
  if (const auto* elements = elements_of(value)) return elements->size();
  if (const auto* dictionary = value.as<Dictionary>()) return dictionary->entries->pairs.size();
  if (const auto* object = value.as<std::shared_ptr<Object>>()) return (*object)->length();
  if (value.is<Undefined>()) return 0;
  return std::nullopt;
}

std::unique_ptr<Iterator> iterator_over(std::vector<Value> values) {
  return iterator_over_items(std::move(values), false);
}

}  // namespace llmtrain::jinja

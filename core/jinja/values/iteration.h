// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

class Iterator {
 public:
  Iterator() = default;
  virtual ~Iterator() = default;
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;

  virtual std::optional<Value> next() = 0;
};

// The elements of a list or tuple, the keys of a dictionary, the characters of a text, what an object gives; nothing
// for an undefined value. Refuses other values.
std::unique_ptr<Iterator> iterate(const Value& value);
// From the last to the first; null where Python's reversed() does not take the value.
std::unique_ptr<Iterator> iterate_backwards(const Value& value);

std::vector<Value> all_of(const Value& value);
bool is_iterable(const Value& value);

// As Python's len(): empty where the value has none.
std::optional<std::size_t> length_of(const Value& value);

// Goes through values that it owns.
std::unique_ptr<Iterator> iterator_over(std::vector<Value> values);

}  // namespace llmtrain::jinja

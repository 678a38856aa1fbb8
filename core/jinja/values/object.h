// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/jinja/values/arguments.h"
#include "core/jinja/values/iteration.h"
#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// A value with a behaviour of its own: ranges, iterators, namespaces, functions. What a kind of object does not say is
// what Python's object does.
class Object {
 public:
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  virtual std::string type() const = 0;
  virtual std::string repr() const;
  virtual std::string str() const { return repr(); }
  virtual bool is_true() const { return true; }
  // Elements of those that have a length.
  virtual std::optional<std::size_t> length() const { return std::nullopt; }
  // Null for what is not iterable.
  virtual std::unique_ptr<Iterator> iterate() { return nullptr; }
  virtual std::unique_ptr<Iterator> iterate_backwards() { return nullptr; }
  virtual std::optional<Value> attribute(std::string_view) { return std::nullopt; }
  // The element at `index`, which may count from the end; empty for an object without elements or beyond them.
  virtual std::optional<Value> element(std::int64_t) const { return std::nullopt; }
  virtual bool has_elements() const { return false; }
  virtual bool is_callable() const { return false; }
  virtual Value call(const Arguments& arguments);
  // Whether another object is equal to this one.
  virtual bool equals(const Object& other) const { return this == &other; }
  // Containers in containers, as of a list.
  virtual int depth() const { return 1; }
};

}  // namespace llmtrain::jinja

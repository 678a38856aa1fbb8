// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/jinja/values/object.h"

namespace llmtrain::jinja {

// Values that are made when they are asked for, and once alone: what Python's generators and iterators are.
class Generator : public Object {
 public:
  using Next = std::function<std::optional<Value>()>;

  // `depth`: of the values that `next` holds.
  Generator(std::string type, int depth, Next next) : type_(std::move(type)), depth_(depth), next_(std::move(next)) {}

  std::string type() const override { return type_; }
  std::unique_ptr<Iterator> iterate() override;
  int depth() const override { return depth_; }

 private:
  std::string type_;
  int depth_;
  Next next_;
};

// Refuses a depth beyond deepest_value (core/jinja/values/value.h).
Value generator(int depth, Generator::Next next, const std::string& type = "generator");
// A generator that gives what the iterator gives.
Value generator(int depth, std::unique_ptr<Iterator> iterator, const std::string& type = "generator");

}  // namespace llmtrain::jinja

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "core/jinja/values/object.h"

namespace llmtrain::jinja {

// A function that is not written in the template: a method with the value that it belongs to, or a global one.
class NativeFunction : public Object {
 public:
  using Body = std::function<Value(const Arguments&)>;

  // `depth`: of the values that the body holds.
  NativeFunction(std::string name, Body body, int depth = 1)
      : name_(std::move(name)), body_(std::move(body)), depth_(depth) {}

  std::string type() const override { return "builtin_function_or_method"; }
  std::string repr() const override { return "<built-in function " + name_ + ">"; }
  bool is_callable() const override { return true; }
  Value call(const Arguments& arguments) override { return body_(arguments); }
  int depth() const override { return depth_; }

 private:
  std::string name_;
  Body body_;
  int depth_;
};

}  // namespace llmtrain::jinja

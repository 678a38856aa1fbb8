// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "core/jinja/scope.h"
#include "core/jinja/syntax/tree.h"
#include "core/jinja/values/object.h"

namespace llmtrain::jinja {

class Evaluator;

// A macro, or the body of a call block, with the names that it sees.
class Macro : public Object {
 public:
  Macro(Evaluator& evaluator, const MacroText& text, ScopePointer around)
      : evaluator_(evaluator), text_(text), around_(std::move(around)) {}

  std::string type() const override { return "Macro"; }
  std::string repr() const override;
  std::optional<Value> attribute(std::string_view name) override;
  bool is_callable() const override { return true; }
  Value call(const Arguments& arguments) override;

 private:
  Evaluator& evaluator_;
  const MacroText& text_;
  ScopePointer around_;
};

}  // namespace llmtrain::jinja

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/jinja/values/object.h"

namespace llmtrain::jinja {

// What namespace() makes: the one value that a template may change.
class NameSpace : public Object {
 public:
  std::string type() const override { return "TemplateNamespace"; }
  std::string repr() const override;
  std::optional<Value> attribute(std::string_view name) override;

  // Refuses names that begin with an underscore.
  void set(const std::string& name, Value value);
  // Ends cycles of values that hold each other.
  void clear() { attributes_.clear(); }

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

}  // namespace llmtrain::jinja

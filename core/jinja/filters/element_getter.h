// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// What filters take from each element: the element, or what lies at a path such as "function.name" or "parts.0".
class ElementGetter {
 public:
  // `attribute`: a path, an integer, or none. `otherwise`: what an undefined part becomes, unless it is none.
  explicit ElementGetter(const Value& attribute, Value otherwise = none());

  Value get(const Value& element) const;

 private:
  std::vector<Value> parts_;
  Value otherwise_;
};

// Text in lower case, other values as they are: what is compared where case does not count.
Value without_case(const Value& value);

}  // namespace llmtrain::jinja

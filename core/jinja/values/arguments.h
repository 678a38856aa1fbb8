// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// What a function is called with.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments in the order of a function's parameters. Refuses too many or too few, those that no parameter is named
// as, and those that are given twice.
class BoundArguments {
 public:
  // The first `required` parameters have no default value. `takes_names`: whether arguments may be named.
  BoundArguments(std::string_view function, const Arguments& arguments,
                 std::initializer_list<std::string_view> parameters, std::size_t required = 0, bool takes_names = true);

  // Null where the argument was left out.
  const Value* get(std::size_t parameter) const;
  // The value, or the default one where the argument was left out or, for `optional` ones, is none. Refuse other types.
  std::int64_t integer(std::size_t parameter, std::int64_t otherwise) const;
  std::string text(std::size_t parameter, std::string otherwise) const;
  bool flag(std::size_t parameter, bool otherwise) const;
  bool is_given(std::size_t parameter) const;  // and is not none

 private:
  std::string function_;
  std::vector<std::optional<Value>> values_;
};

// The integer that a value is as an index or a count. Refuses other values, `what` says whose.
std::int64_t integer_of(const Value& value, std::string_view what);

}  // namespace llmtrain::jinja

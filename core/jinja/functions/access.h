// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// object.name and object[index] as Jinja's sandbox looks them up: an attribute comes first in the one, an element in
// the other, and what is not found is undefined. Refuse undefined objects.
Value attribute(const Value& object, std::string_view name);
Value item(const Value& object, const Value& index);
// object[begin:end:step]; none stands for what is left out. Refuses what Python cannot slice.
Value slice(const Value& object, const Value& begin, const Value& end, const Value& step);

// An attribute in Python's sense, which is no key: methods, and what objects name. Empty where there is none.
std::optional<Value> own_attribute(const Value& object, std::string_view name);

}  // namespace llmtrain::jinja

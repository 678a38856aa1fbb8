// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// A method of a list, tuple or dictionary that leaves it as it is, bound to it. Empty where Python has none; refuses
// one that is not supported here.
std::optional<Value> container_method(const Value& container, std::string_view name);

// Whether Python's method of this name would change the container, which the sandbox forbids.
bool changes_container(const Value& container, std::string_view name);

}  // namespace llmtrain::jinja

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// As Python's ==: numbers of all types by their value, True as 1; undefined values are equal to each other.
bool are_equal(const Value& left, const Value& right);

// As Python's <: numbers, texts by code points, lists and tuples by their elements. Refuses other pairs.
bool is_less(const Value& left, const Value& right);

// The comparisons by their sign in a template: "==", "!=", "<", "<=", ">", ">=".
bool compares(std::string_view sign, const Value& left, const Value& right);

// As Python's `element in container`.
bool contains(const Value& container, const Value& element);

// Refuses a value that cannot be a dictionary's key: lists, dictionaries and tuples of them.
void check_is_hashable(const Value& value);

}  // namespace llmtrain::jinja

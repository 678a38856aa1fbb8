// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

enum class Operator { add, subtract, multiply, divide, floor_divide, modulo, power };

// As Python's operators, on numbers, texts, lists and tuples. Refuses what Python refuses, and integers beyond 64 bits.
Value calculate(Operator operation, const Value& left, const Value& right);
Value negated(const Value& value);
Value unchanged(const Value& value);  // the sign +

// As Python's round(): half to even; `digits` after the point, negative ones before it.
Value rounded(const Value& value, std::int64_t digits);

}  // namespace llmtrain::jinja

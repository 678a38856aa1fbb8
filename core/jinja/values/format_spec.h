// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// As Python's format(value, spec) for texts and numbers: "[[fill]align][sign][0][width][,][.precision][type]". Refuses
// what Python refuses, and the rarer "#", "_", "z" and "n".
std::string formatted(const Value& value, std::string_view spec);

// `bytes` in a field of `width` characters; `align` is <, > or ^.
std::string aligned(std::string_view bytes, std::int64_t width, char align, std::string_view fill = " ");

// A number as C's printf writes it by e, E, f, F, g or G.
std::string printed(double number, char type, int precision);

}  // namespace llmtrain::jinja

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/json/json_text.h"

namespace llmtrain {

// The word that was probably meant, or empty: another program's word for it, the shortest that begins so, or one within
// a few edits, ignoring case.
std::string_view nearest_word(std::string_view written, std::span<const std::string_view> words);

// The pointer of the key that was probably meant by `pointer`, or empty: a similar name in the same section, a name
// that other programs use for it, or the same or a similar name elsewhere in the recipe.
std::string nearest_key(const std::string& pointer);

// Whether the key at `pointer` is a section with keys of its own, and not a value.
bool has_keys(const std::string& pointer);

// What was probably meant by a value that its key or section cannot take: the key that stands for the section to many,
// such as the peak for a learning rate, the key that the value belongs to, or the value in the form that is taken.
// Empty where none is known.
std::string value_meant(const std::string& pointer, const Json& value);

// The positive multiple of `divisor` and the divisor of `whole` nearest to `value`; on a tie the higher multiple and
// the lower divisor.
std::int64_t nearest_multiple(std::int64_t value, std::int64_t divisor);
std::int64_t nearest_divisor(std::int64_t value, std::int64_t whole);

}  // namespace llmtrain

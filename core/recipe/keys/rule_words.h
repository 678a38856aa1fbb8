// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/recipe/keys/key_visitor.h"

namespace llmtrain {

// The values that a key accepts, as worded in messages and the reference: "a whole number from 1 to 8", "\"a\", \"b\"
// or \"c\"".
std::string range_words(IntegerRange range);
std::string range_words(NumberRange range);
std::string choice_words(Words words);
std::string text_words(const TextRule& rule);
std::string tokenizer_words();
std::string balance_rule_words();

bool contains(NumberRange range, double value);

// The shortest decimal that reads back as the same number.
std::string number_words(double value);

}  // namespace llmtrain

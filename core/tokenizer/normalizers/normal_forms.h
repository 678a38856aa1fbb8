// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace llmtrain {

// Unicode's normal forms (UAX #15): characters taken apart (D) or put together (C), with those that are other forms of
// one made that one (K) or not.
enum class NormalForm { c, d, kc, kd };

// A normal form of valid UTF-8, by the rules of Unicode 9, which the `tokenizers` package has: marks that came later
// neither move nor combine.
std::string normal_form(std::string_view text, NormalForm form);

// Whether normal_form() may change the text; false is certain and found fast.
bool may_change(std::string_view text, NormalForm form);

}  // namespace llmtrain

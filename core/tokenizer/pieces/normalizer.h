// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace llmtrain {

// Unicode's normal form C of valid UTF-8 (UAX #15), by the rules of Unicode 9, which the `tokenizers` package has:
// marks that came later neither move nor combine.
std::string compose_characters(std::string_view text);

// Whether compose_characters() may change the text; false is certain and found fast.
bool may_need_composition(std::string_view text);

}  // namespace llmtrain

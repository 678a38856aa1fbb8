// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace llmtrain {

// A pattern for PCRE2 that matches what `pattern` matches in Oniguruma, which the `tokenizers` package uses: general
// categories with recent_characters(), and white space as Unicode defines it. Throws std::invalid_argument with the
// construct whose meaning differs between the two and that cannot be translated.
std::string translate_regex(std::string_view pattern);

}  // namespace llmtrain

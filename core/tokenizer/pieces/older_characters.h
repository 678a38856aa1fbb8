// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain {

// Characters of which an older version of Unicode says otherwise than version 16, mostly because it did not know them.
bool nonspacing_differs_in_unicode_8(char32_t code);   // whether they are Mn
bool mark_differs_in_unicode_9(char32_t code);         // whether they are M
bool punctuation_differs_in_unicode_8(char32_t code);  // whether they are P

}  // namespace llmtrain

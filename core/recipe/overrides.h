// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/json/document.h"

namespace llmtrain {

// Applies one `--set pointer.path=JSON` to the document. Missing sections are created, an entry one past the end of a
// list is appended, and a plain value in the way is replaced. Returns what is wrong with the text, or nothing.
std::string apply_override(const std::string& text, Document& document);

}  // namespace llmtrain

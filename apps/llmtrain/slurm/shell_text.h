// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace llmtrain::app {

// One word for bash, whatever its content: in single quotes, where only these themselves mean anything.
std::string shell_word(const std::string& text);

// A command's words, with spaces between them.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace llmtrain::app

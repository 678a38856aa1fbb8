// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/slurm/shell_text.h"

namespace llmtrain::app {

std::string shell_word(const std::string& text) {
  std::string result = "'";
  for (const char character : text)
    if (character == '\'') {
      result += "'\\''";
    } else {
      result += character;
    }
  return result + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

}  // namespace llmtrain::app

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace llmtrain {

// An option of sbatch as its long form has it: "--constraint=h100", "--constraint h100" or "--hold".
struct SbatchOption {
  std::string name;  // "constraint"
  std::optional<std::string> value{};

  // As it stands in a line "#SBATCH …", where a value with spaces is quoted.
  std::string line() const;
};

// None where the text is no such option: "-C h100".
std::optional<SbatchOption> sbatch_option(std::string_view text);

// Whether the text can stand in a line "#SBATCH …". Quotes and backslashes would join or divide its words, "#" would
// begin a comment, and control characters the next line.
bool fits_sbatch_line(std::string_view text);

}  // namespace llmtrain

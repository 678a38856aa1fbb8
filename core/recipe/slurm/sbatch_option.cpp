// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/slurm/sbatch_option.h"

#include <algorithm>
#include <cctype>

namespace llmtrain {

std::string SbatchOption::line() const {
  std::string text = "#SBATCH --" + name;
  if (value) text += value->find(' ') == std::string::npos ? "=" + *value : "=\"" + *value + "\"";
  return text;
}

std::optional<SbatchOption> sbatch_option(std::string_view text) {
  if (!text.starts_with("--")) return std::nullopt;
  text.remove_prefix(2);
  const auto end = text.find_first_of("= ");
  const std::string_view name = text.substr(0, end);
  const auto is_letter = [](unsigned char letter) { return std::islower(letter) != 0 || letter == '-'; };
  if (name.empty() || name.front() == '-' || !std::ranges::all_of(name, is_letter)) return std::nullopt;
  SbatchOption option{.name = std::string(name)};
  if (end == std::string_view::npos) return option;
  text.remove_prefix(end + 1);
  if (text.empty()) return std::nullopt;
  option.value = std::string(text);
  return option;
}

bool fits_sbatch_line(std::string_view text) {
  return std::ranges::none_of(text, [](unsigned char letter) {
    return std::iscntrl(letter) != 0 || letter == '"' || letter == '\'' || letter == '\\' || letter == '#';
  });
}

}  // namespace llmtrain

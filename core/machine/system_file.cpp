// SPDX-License-Identifier: Apache-2.0
#include "core/machine/system_file.h"

#include <fstream>

namespace llmtrain {

std::string value_in(const std::filesystem::path& file, std::string_view key) {
  constexpr const char* blanks = " \t\r";
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key)) continue;
    const auto colon = line.find(':', key.size());
    const auto begin = colon == std::string::npos ? colon : line.find_first_not_of(blanks, colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(blanks) - begin + 1);
  }
  return "";
}

}  // namespace llmtrain

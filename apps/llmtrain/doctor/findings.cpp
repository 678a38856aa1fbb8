// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/doctor/findings.h"

#include <fstream>

namespace llmtrain::app {

std::string first_line(const std::string& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

std::string value_in(const std::string& file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key)) continue;
    const auto colon = line.find(':', key.size());
    const auto begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

}  // namespace llmtrain::app

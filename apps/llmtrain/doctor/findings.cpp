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

}  // namespace llmtrain::app

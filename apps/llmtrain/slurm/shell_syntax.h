// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace llmtrain::app {

// What bash says, in one line, of lines that are no complete commands: "line 2: syntax error: unexpected end of file".
// Empty where it has no complaint, or where there is no bash. Executes nothing. Throws Error(internal_error).
std::string complaint_of_bash(const std::vector<std::string>& lines);

}  // namespace llmtrain::app

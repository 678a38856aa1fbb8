// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace llmtrain {

// The JSON pointers of all keys and sections, in the order of the table; entries of a list as "/data/train/0/path".
std::vector<std::string> key_pointers();

}  // namespace llmtrain

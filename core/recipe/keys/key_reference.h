// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace llmtrain {

// The JSON pointer of every key of the table, sections too, in its order; entries of a list as "/data/train/0/path".
std::vector<std::string> key_pointers();

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace llmtrain {

// The "text" of every line of JSON Lines, one after another; empty lines are skipped, other keys ignored. Throws
// Error(bad_data) that begins with `name` and gives the line when one is not a JSON object with a string "text".
std::string read_json_lines(std::span<const std::byte> bytes, const std::string& name);

}  // namespace llmtrain

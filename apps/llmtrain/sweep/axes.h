// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "parallel/plan/report/sweep.h"

namespace llmtrain::app {

// The keys and values of a repeated flag such as --sweep, each "key=value,value"; commas within brackets, braces and
// quotes belong to a value. Throws Error(bad_recipe) for a malformed one, and for more combinations than 4,096.
std::vector<SweepAxis> axes_of(const std::string& flag, const std::vector<std::string>& texts);

// Every combination of the axes' values, the last axis changing fastest.
std::vector<std::vector<std::string>> combinations_of(const std::vector<SweepAxis>& axes);

}  // namespace llmtrain::app

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace llmtrain {

// Like format_duration() (core/base/units.h), but with three significant digits below ten seconds, the range of steps
// and their parts: "1.79s", "86.2ms", "512µs".
std::string duration_text(double seconds);

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace llmtrain {

// As format_duration() (core/base/units.h), with three digits below a minute, where steps and their parts lie: "1.79s",
// "86.2ms", "512µs".
std::string duration_text(double seconds);

}  // namespace llmtrain

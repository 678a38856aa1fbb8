// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/schedule/schedule.h"

namespace llmtrain {

// The colours of a page's timeline, as classes of its style sheet. Stages of one loop share a colour; forward passes
// are light, backward passes dark.
constexpr std::int32_t most_stage_colours = 8;

// "f0" … "f7", "b0" … "b7", "gather", "reduce", "send", "receive", "step".
std::string colour_class(const ScheduleShape& shape, const Instruction& instruction);

// The legend's HTML, with the classes that the shape needs.
std::string timeline_legend(const ScheduleShape& shape);

}  // namespace llmtrain

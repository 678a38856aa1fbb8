// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/page/html_page.h"
#include "parallel/plan/report/html/drawn_step.h"
#include "parallel/plan/report/plan.h"
#include "parallel/schedule/schedule.h"

namespace llmtrain {

// The sections of a page.

// Name, verdict and the most important figures.
Html headline_section(const PlanReport& report);
// Where a step's time goes, as a bar and a list.
Html step_section(const PlanReport& report);
// Warnings and suggestions; empty if there are none.
Html advice_section(const PlanReport& report);
Html rank_section(const PlanReport& report);
Html communication_section(const PlanReport& report);
Html recipe_section(const PlanReport& report);

// The schedule as SVG in a <section>: one row per selected rank with lanes for passes, data-parallel collectives and
// transfers; and as JSON for the page's script, which describes the instruction under the pointer.
Html timeline_section(const Plan& plan, const TimelineSelection& selection, const TimeAxis& axis, MarkupLiteral title,
                      MarkupLiteral note);

// What the instructions of stages consist of, as JSON for the page's script: texts by kind of stage and instruction.
std::string work_data(const StageWork& work);
// The origins that these texts name, as a table; empty if there are none.
Html sources_section(const StageWork& work);

// Memory over one step, stacked by category, with the device's limit as a line: a large chart of the fullest rank and
// small ones of the selected ranks, on one scale. `axis` covers the whole step.
Html memory_section(const Plan& plan, const TimelineSelection& selection, const TimeAxis& axis);

// The colours of a page's timeline, as classes of its style sheet. Stages of one loop share a colour; forward passes
// are light, backward passes dark.
constexpr std::int32_t most_stage_colours = 8;

// "f0" … "f7", "b0" … "b7", "gather", "reduce", "send", "receive", "step".
std::string colour_class(const ScheduleShape& shape, const Instruction& instruction);

// The legend, with the classes that the shape needs, and those of wires.
Html timeline_legend(const ScheduleShape& shape, bool has_wires = false);

// Shows what is under the pointer, and zooms the timeline.
extern const MarkupLiteral page_script;

// The whole page around its sections.
std::string plan_page(const std::string& title, const Html& sections);

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/recipe/recipe.h"

namespace llmtrain {

// A schedule's word, and what it allows. parallel/schedule/pass_order.cpp defines the order of its passes.
struct ScheduleTraits {
  std::string_view word;
  bool one_stage_per_rank = false;    // over several pipeline ranks
  bool groups_micro_batches = false;  // with loops and several pipeline ranks: in groups of as many as ranks
};

// In the order of the enum.
inline constexpr std::array<ScheduleTraits, 4> schedule_traits = {{
    {.word = "breadth_first"},
    {.word = "gpipe", .one_stage_per_rank = true},
    {.word = "1f1b", .one_stage_per_rank = true},
    {.word = "interleaved", .groups_micro_batches = true},
}};

inline constexpr auto pipeline_schedule_words = [] {
  std::array<std::string_view, schedule_traits.size()> words;
  std::ranges::transform(schedule_traits, words.begin(), &ScheduleTraits::word);
  return words;
}();

constexpr const ScheduleTraits& traits_of(PipelineSchedule schedule) {
  return schedule_traits[static_cast<std::size_t>(schedule)];
}

// Whether each of `ranks` pipeline ranks may have `loops` stages.
constexpr bool takes_loops(PipelineSchedule schedule, std::int64_t ranks, std::int64_t loops) {
  return ranks == 1 || loops == 1 || !traits_of(schedule).one_stage_per_rank;
}

// The number of micro-batches per step must be a multiple of this.
constexpr std::int64_t micro_batch_group(PipelineSchedule schedule, std::int64_t ranks, std::int64_t loops) {
  return loops > 1 && traits_of(schedule).groups_micro_batches ? ranks : 1;
}

}  // namespace llmtrain

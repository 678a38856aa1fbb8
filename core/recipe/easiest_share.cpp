// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/easiest_share.h"

#include "core/recipe/schedules/length_schedule.h"

namespace llmtrain {

std::int64_t easiest_percent(const CurriculumRecipe& curriculum, std::int64_t step) {
  const auto& rarity = curriculum.vocabulary_rarity;
  if (!rarity) return all_percent;
  const LengthScheduleRecipe schedule{rarity->start, rarity->steps, 1, rarity->degree};
  return LengthSchedule(schedule, all_percent).at(step + 1);
}

}  // namespace llmtrain

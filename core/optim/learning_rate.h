// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/recipe/recipe.h"

namespace llmtrain {

// The learning rate of step k, counted from 0. With w warm-up steps and d = decay_steps:
//   k < w                  peak·(k + 1)/w, whatever the schedule
//   constant               peak from then on; neither minimum nor decay_steps matter
//   cosine, linear         from peak at k = w to minimum at k = d along half a cosine (Loshchilov and Hutter,
//                          arXiv 1608.03983) or a line
//   wsd                    warm-up, stable, decay (Hu et al., arXiv 2404.06395): peak up to the last fifth of d, then
//                          a line that starts at k = max(w, d − ⌊d/5⌋) and reaches minimum at k = d
// From k = d on, all but constant stay at minimum. The curve is sampled at whole steps counted from 0, so the last step
// of a run of exactly d steps is one step short of minimum.
double learning_rate_at(const LearningRateRecipe& recipe, std::int64_t step);

}  // namespace llmtrain

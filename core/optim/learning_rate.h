// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/training_recipe.h"

namespace llmtrain {

// The learning rate of step k, counted from 0, or where tokens move it along, at k, which need not be whole then
// (schedule_position()). With w warm-up steps and d = decay_steps:
//   k < w                  peak·(k + 1)/w but at most peak, whatever the schedule
//   constant               peak from then on; neither minimum nor decay_steps matter
//   cosine, linear         from peak at k = w to minimum at k = d along half a cosine (Loshchilov and Hutter,
//                          arXiv 1608.03983) or a line
//   cosine_restarts        as many such cosines one after the other, each from peak (the same paper, section 3)
//   wsd                    warm-up, stable, decay (Hu et al., arXiv 2404.06395): peak up to the last decay_length
//   steps,
//                          ⌊d/5⌋ by default, then decay_shape from k = max(w, d − decay_length) to minimum at k = d
//   inverse_sqrt           minimum + (peak − minimum)·√(w/k), or with no warm-up √(10,000/(k + 10,000)), as fairseq and
//                          transformers have it; decay_steps does not matter
// From k = d on, all but constant and inverse_sqrt stay at minimum. The curve is sampled at whole steps counted from 0,
// so the last step of a run of exactly d steps is one step short of minimum, as with PyTorch's schedulers: with the
// minimum 0 that step would change nothing.
double learning_rate_at(const LearningRateRecipe& recipe, double step);

}  // namespace llmtrain

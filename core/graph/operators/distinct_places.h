// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/model_recipe.h"

namespace llmtrain {

// Which share of the rows that go to experts remains where a token goes once to each of `places` equal runs of
// consecutive experts, a rank's or a node's, with any of its own, under even routing. Where a token's experts are of
// some groups alone (model.moe.top_groups), it goes to fewer places; all choices of groups, and of experts in these,
// are equally likely then, too. Of places and groups one must be a multiple of the other to count.
double distinct_share(const MixtureOfExpertsRecipe& moe, double places);

}  // namespace llmtrain

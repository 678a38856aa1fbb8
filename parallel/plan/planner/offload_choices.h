// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/layout/mesh.h"
#include "parallel/plan/profile/cluster_profile.h"

namespace llmtrain {

// What may be on the host beside what the recipe has there, as far as the profile says how fast the way there is:
// activations, optimizer states, these with the weights, and activations beside each. Of a processor, whose memory is
// the host's, optimizer states on a disk, where its memory is hard. Rules of recipes may refuse some of them.
std::vector<OffloadRecipe> more_on_host(const Recipe& recipe, const ClusterProfile& cluster);

// The recipe with this offload, and what it takes.
Recipe with_offload(Recipe recipe, const OffloadRecipe& offload);

bool keeps_rules(const Recipe& recipe);

// With a layer in each stage, where a recipe of one pipeline rank has a single stage whose layers no list fixes.
Recipe in_stages(Recipe recipe, const Mesh& mesh);

// The recipes in place of one that runs on this mesh of which more is on the host, each of more_on_host(), and with
// optimizer states also the gradients of stages, as far as rules of recipes and run allow it. Weights take ZeRO-3: of a
// rank that shares its model with no other they are fetched layer by layer, whatever ZeRO stage the recipe has;
// otherwise only where it is 3. Numbers are the same with all of them.
std::vector<Recipe> offload_choices(const Recipe& recipe, const Mesh& mesh, const ClusterProfile& cluster);

}  // namespace llmtrain

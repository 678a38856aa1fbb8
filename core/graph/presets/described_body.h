// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/body.h"
#include "core/graph/blocks/body_block.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// A body with the axes "sequences" and "tokens", and what its parameters are by their names: biases begin as zeros,
// norms as ones, others with model.init_std; none decays but matrices, kernels and the table of tokens. `is_unit`: of a
// layer.
BodyDescription described(body::Body body, const ModelRecipe& model, bool is_unit = false);

}  // namespace llmtrain

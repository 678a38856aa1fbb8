// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/graph.h"

namespace llmtrain {

// Marks the parameters of the modules that are trained beside adapters (model.lora.modules_to_save;
// Parameter::is_saved_module). A module is what one layer of the model multiplies and adds: its weight and its bias,
// if it has one. It is named by a pattern of its name, "final_norm", or of one of its parameters',
// "final_norm.weight", or as transformers calls it, "embed_tokens". Throws Error(bad_recipe) where a pattern matches no
// module outside of routed experts, or one of a matrix that has an adapter.
void mark_saved_modules(Graph& graph);

}  // namespace llmtrain

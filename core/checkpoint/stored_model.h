// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/checkpoint/checkpoint.h"
#include "core/graph/graph.h"

namespace llmtrain {

// The checkpoint's tensor of that name. Throws Error(bad_data) if it is missing or has another shape than the
// parameter.
const LogicalTensor& find_tensor(const CheckpointReader& checkpoint, const std::string& name,
                                 const Parameter& parameter);

// The tensor with a parameter's weights in their most precise form: its master weights if the checkpoint has them.
std::string weights_name(const CheckpointReader& checkpoint, const Parameter& parameter);

// Whether the checkpoint leaves the parameter's weights out because they are those of the base that it names.
bool leaves_out(const CheckpointReader& checkpoint, const Parameter& parameter);

// Whether a model keeps the parameter's weights as it has made them where the others are the checkpoint's: those that
// leaves_out() says, and adapters where the checkpoint has none.
bool keeps_own(const CheckpointReader& checkpoint, const Parameter& parameter);

// Throws what find_tensor() throws for the weights of any of the model's parameters that is not left out. Reads only
// the manifest, so that a recipe that asks for more than the checkpoint holds is refused before memory is.
void require_weights(const CheckpointReader& checkpoint, const Graph& graph);

}  // namespace llmtrain

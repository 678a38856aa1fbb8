// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/checkpoint/checkpoint.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

// Loads the base that a checkpoint of adapters leaves out; does nothing for any other. The first rank finds whether it
// is the same. Collective. Throws what open_base() and require_same_base() throw (core/huggingface/adapted_base.h).
void load_left_out(LocalModel& model, const CheckpointReader& checkpoint);

}  // namespace llmtrain

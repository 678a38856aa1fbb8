// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "parallel/engine/local_model.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// Calls `work` on each of `ranks`, threads of this process with a device each, with the weights of a checkpoint alone:
// no gradients and no optimizer states, regardless of the layout that trained them. With `memory` each
// rank's are in memory as far as it says. Returns the checkpoint's step when all ranks have ended. Throws
// Error(bad_recipe) where the model cannot be divided so or is not one whose weights are read from a file,
// Error(bad_data) where the checkpoint is not intact or not of this recipe, before anything large is allocated; else
// what the work threw first.
std::int64_t with_loaded_model(const Recipe& recipe, const std::string& checkpoint, const InferenceRanks& ranks,
                               const std::optional<WeightMemory>& memory, const std::function<void(LocalModel&)>& work);

// Calls `work` on this thread with another model, beside one that with_loaded_model() has loaded, whose ranks keep
// their parts of the cores. Throws what that throws.
void with_model_beside(const Recipe& recipe, const std::string& checkpoint,
                       const std::function<void(LocalModel&)>& work);

}  // namespace llmtrain

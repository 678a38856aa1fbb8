// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/model/stage.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The stage as it runs on the device that the local backend emulates (emulated_layer()): a training pass through its
// `layers` layers takes at least as long as on that device, towards which the processor's own computation counts. The
// stage itself where the recipe emulates none.
std::unique_ptr<StagePasses> on_emulated_device(std::unique_ptr<StagePasses> stage, const Recipe& recipe,
                                                std::int64_t layers);

}  // namespace llmtrain

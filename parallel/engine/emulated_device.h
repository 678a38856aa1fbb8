// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/model/stage.h"
#include "parallel/layout/emulated_machine.h"

namespace llmtrain {

// The stage as it runs on the device that the local backend emulates: a training pass through it takes at least as long
// as on that device, towards which the processor's own computation counts. The stage itself where there is none.
std::unique_ptr<StagePasses> on_emulated_device(std::unique_ptr<StagePasses> stage, const EmulatedPasses& passes);

}  // namespace llmtrain

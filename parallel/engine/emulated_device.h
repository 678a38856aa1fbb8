// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/model/stage.h"
#include "parallel/layout/emulated_machine.h"

namespace llmtrain {

// Wraps a stage so that it runs like on the device that the local backend emulates: a training pass through its
// `layers` blocks at least as long as the emulated device would take; the processor's own computation counts towards
// that time. Returns the stage itself if nothing is emulated.
std::unique_ptr<StagePasses> emulate_device(std::unique_ptr<StagePasses> stage, const EmulatedLayer& layer,
                                            std::int64_t layers);

}  // namespace llmtrain

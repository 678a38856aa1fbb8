// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/model/stage.h"
#include "parallel/layout/imitated_machine.h"

namespace llmtrain {

// Wraps a stage so that it runs like on the device that the local backend imitates: a training pass through its
// `layers` blocks at least as long as the imitated device would take; the processor's own computation counts towards
// that time. Returns the stage itself if nothing is imitated.
std::unique_ptr<StagePasses> imitate_device(std::unique_ptr<StagePasses> stage, const ImitatedLayer& layer,
                                            std::int64_t layers);

}  // namespace llmtrain

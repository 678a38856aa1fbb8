// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/model/stage.h"
#include "parallel/layout/imitated_machine.h"

namespace llmtrain {

// The stage as a device runs it that the local backend imitates: a training pass through its `layers` ends at the
// earliest when the imitated one would, and blocks until then; what the processor computes meanwhile is part of it.
// Where nothing is imitated it returns the stage itself.
std::unique_ptr<StagePasses> imitate_device(std::unique_ptr<StagePasses> stage, const ImitatedLayer& layer,
                                            std::int64_t layers);

}  // namespace llmtrain

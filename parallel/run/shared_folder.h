// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// Checks that all ranks see what the first one writes to its folder of checkpoints, which each rank names by its own
// path. Creates the folder and removes what killed writers have left there. Collective; blocks. Throws
// Error(cannot_write), the same on all ranks, that names a rank which does not see it within `patience` (network file
// systems show new files late), its host and a remedy.
void check_shared_folder(Communicator& communicator, const std::filesystem::path& checkpoints,
                         std::chrono::milliseconds patience = std::chrono::seconds(40));

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// Whether all ranks see what the first one writes to its folder of checkpoints, which each names as it sees it. Makes
// the folder, and clears away what killed writers left there. All ranks call it; blocks. Throws Error(cannot_write),
// the same on all ranks, that names a rank which does not see it within `patience` (file systems of networks tell of
// new files late), its host and what to do.
void check_shared_folder(Communicator& communicator, const std::filesystem::path& checkpoints,
                         std::chrono::milliseconds patience = std::chrono::seconds(40));

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/checkpoint/checkpoint.h"

namespace llmtrain {

// What a run began with, as far as that is a checkpoint of another run. `own` is the run's newest checkpoint, whose
// manifest says it; that of an older version says which checkpoint.resume its recipe had.

// Throws Error(bad_recipe) if the path `resume` names something else than what the run began with or goes on from: it
// would be passed over. A command that is repeated, as by a queue, names what it named when the run began.
void check_beginning(const CheckpointReader& own, const std::string& resume);

// The folder of that checkpoint; empty without one.
std::string beginning_of(const CheckpointReader& own);

// The same of a run that begins with `other`.
std::string beginning_with(const CheckpointReader& other);

// Whether checkpoint.resume is a path.
bool names_checkpoint(const std::string& resume);

}  // namespace llmtrain

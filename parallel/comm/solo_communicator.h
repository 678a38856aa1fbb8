// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// A world of one rank: all groups have one member, so no operation has to wait for another rank.
std::shared_ptr<Communicator> make_solo_communicator();

}  // namespace llmtrain

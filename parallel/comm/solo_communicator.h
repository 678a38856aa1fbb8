// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// A world of one rank: all of its groups have one member, and no operation has anybody to wait for.
std::shared_ptr<Communicator> make_solo_communicator();

}  // namespace llmtrain

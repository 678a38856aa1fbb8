// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/comm/nccl/nccl_link.h"
#include "parallel/comm/request.h"

namespace llmtrain {

// Puts the operation on the link's stream. Of a message the link has two ranks, the sender being the first. Barriers
// are not for the device.
void enqueue(const Request& request, NcclLink& link);

}  // namespace llmtrain

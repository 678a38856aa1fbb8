// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/comm/nccl/nccl_link.h"
#include "parallel/comm/request.h"

namespace llmtrain {

// Enqueues the operation on the link's stream. For a message the link must have two ranks, the sender first. Barriers
// are not supported.
void enqueue(const Request& request, NcclLink& link);

}  // namespace llmtrain

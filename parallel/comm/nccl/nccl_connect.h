// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/comm/nccl/nccl_link.h"

namespace llmtrain {

// Connects as NcclLink's constructor says. The caller destroys or aborts the result.
ncclComm_t connect_ranks(const ncclUniqueId& id, NcclPlace place, NcclUse use,
                         const std::shared_ptr<CudaStream>& stream, const Communicator& host, double watchdog_seconds);

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_world.h"
#include "parallel/runtime/parts.h"

llmtrain::Communicator* llmtrain_join_nccl_world(const llmtrain::NcclJoin& join) {
  llmtrain::NcclOptions options;
  options.watchdog_seconds = join.watchdog_seconds;
  options.device = join.device;
  options.compute_stream = [stream_of = join.compute_stream, device = join.device] { return stream_of(device); };
  return llmtrain::join_nccl_world(join.host, options).release();
}

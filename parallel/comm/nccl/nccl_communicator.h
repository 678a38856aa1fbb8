// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/layered_communicator.h"
#include "parallel/comm/nccl/nccl_watch.h"
#include "parallel/comm/nccl/nccl_world.h"

namespace llmtrain {

struct NcclGroup;

// One rank with a GPU of its own: see join_nccl_world().
class NcclCommunicator : public LayeredCommunicator {
 public:
  NcclCommunicator(std::shared_ptr<Communicator> host, const NcclOptions& options);

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int position,
                                           GroupUse use) override;
  std::shared_ptr<PendingOperation> start(Request request) override;

  std::shared_ptr<NcclLink> connect(const ncclUniqueId& id, int size, int position);
  void connect_neighbours(NcclGroup& group);
  std::shared_ptr<NcclLink> connect_pair(const NcclGroup& group, int from, int to);

  NcclOptions options_;
  NcclWatch watch_;
};

}  // namespace llmtrain

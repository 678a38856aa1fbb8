// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/nccl/nccl_watch.h"
#include "parallel/comm/nccl/nccl_world.h"

namespace llmtrain {

struct NcclGroup;

// One rank with a GPU.
class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<Communicator> host, const NcclOptions& options);

  void abort(ExitCode code, const std::string& message) override { host_->abort(code, message); }
  std::optional<Failure> failure() const override { return host_->failure(); }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int position) override;
  std::shared_ptr<PendingOperation> start(Request request) override;

  void connect_neighbours(NcclGroup& group);
  std::shared_ptr<NcclLink> connect_pair(NcclGroup& group, int from, int to);
  NcclLink& link_of(const Request& request);

  std::shared_ptr<Communicator> host_;
  NcclOptions options_;
  NcclWatch watch_;
};

}  // namespace llmtrain

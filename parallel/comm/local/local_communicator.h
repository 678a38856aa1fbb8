// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/local/local_shared.h"

namespace llmtrain {

// One rank of a LocalWorld.
class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<LocalShared> shared, int rank);

  void abort(ExitCode code, const std::string& message) override;
  std::optional<Failure> failure() const override { return shared_->failure().get(); }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int position,
                                           GroupUse use) override;
  std::shared_ptr<PendingOperation> start(Request request) override;

  std::shared_ptr<LocalShared> shared_;
};

}  // namespace llmtrain

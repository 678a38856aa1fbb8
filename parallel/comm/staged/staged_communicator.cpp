// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "parallel/comm/layered_communicator.h"
#include "parallel/comm/staged/staged_world.h"
#include "parallel/comm/staged/staging_queue.h"

namespace llmtrain {
namespace {

// One rank with a device: see stage_through_host().
class StagedCommunicator : public LayeredCommunicator {
 public:
  StagedCommunicator(std::shared_ptr<Communicator> host, std::unique_ptr<StagingDevice> device)
      : LayeredCommunicator(std::move(host)),
        queue_(std::make_shared<StagingQueue>(this->host(), std::move(device), [this](const Request& request) {
          return Handle(start_on(*this->host(), request));
        })) {
    set_world(Group(std::make_shared<LayerGroup>(this->host()->world())));
  }
  // Handles may outlive the communicator and share the queue; stop() ends its thread and fails what is unfinished.
  ~StagedCommunicator() override { queue_->stop(); }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int,
                                           GroupUse use) override {
    return std::make_shared<LayerGroup>(host()->make_group(name, std::move(ranks), use));
  }

  std::shared_ptr<PendingOperation> start(Request request) override {
    raise_if_failed();
    auto operation = std::make_shared<StagedOperation>(queue_, host_request(std::move(request)), shared_log());
    queue_->add(operation);
    return operation;
  }

  std::shared_ptr<StagingQueue> queue_;
};

}  // namespace

std::unique_ptr<Communicator> stage_through_host(std::shared_ptr<Communicator> host,
                                                 std::unique_ptr<StagingDevice> device) {
  return std::make_unique<StagedCommunicator>(std::move(host), std::move(device));
}

}  // namespace llmtrain

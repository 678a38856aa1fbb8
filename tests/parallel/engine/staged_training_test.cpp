// SPDX-License-Identifier: Apache-2.0
// Training whose tensors count as device memory: staging through the host is bitwise equal to direct communication.
#include <catch2/catch.hpp>
#include <memory>
#include <utility>

#include "parallel/comm/backend.h"
#include "parallel/comm/staged/staged_world.h"
#include "tests/parallel/comm/fake_device.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

// Declares the memory of tensors as device memory. What ranks agree on is in host memory on GPUs too.
class PretendedDevices : public LayeredCommunicator {
 public:
  explicit PretendedDevices(std::shared_ptr<Communicator> host) : LayeredCommunicator(std::move(host)) {
    set_world(Group(std::make_shared<LayerGroup>(this->host()->world())));
  }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int,
                                           GroupUse use) override {
    return std::make_shared<LayerGroup>(host()->make_group(name, std::move(ranks), use));
  }
  std::shared_ptr<PendingOperation> start(Request request) override {
    const bool is_tensor = request.type != ElementType::uint8 && request.collective != Collective::barrier;
    if (is_tensor) request.memory = Memory::device;
    return start_on(*host(), host_request(std::move(request)));
  }
};

std::shared_ptr<Communicator> on_pretended_device(Communicator& communicator) {
  return std::make_shared<PretendedDevices>(
      stage_through_host(test::as_it_is(communicator), std::make_unique<test::FakeDevice>(nullptr)));
}

}  // namespace

TEST_CASE("staging tensors through the host does not change a bit of training", "[ranks]") {
  const TrainingSetting setting;
  const std::string layers = "model.layers=4", micro = "batch.micro=1";
  const auto [ranks, layout] = GENERATE(table<int, Overrides>({
      {2, {zero(0)}},
      {4, {zero(1), "parallel.zero_shard_ranks=2"}},
      {4, {zero(3), "parallel.pipeline=2", "pipeline.loops=2", "model.tie_embeddings=true"}},
      // An end of a shard cuts the second layer's matrices: Muon's exchange of parts goes on while tensor ranks
      // exchange.
      {4, {"model.layers=3", zero(1), "parallel.tensor=2", "training.optimizer.name=\"muon\""}},
      {4, {"parallel.tensor=2", "parallel.context=2"}},
      {4, {"parallel.tensor=2", "parallel.pipeline=2", "parallel.sequence=true", "pipeline.schedule=\"1f1b\""}},
  }));
  const Overrides all = Overrides{layers, micro} + layout;
  INFO(in_words(ranks, all));
  check_equal(train_ranks(setting, ranks, all, 5, on_pretended_device), train_ranks(setting, ranks, all, 5));
}

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
// Training whose tensors pass through the emulated GPU: staging through the host is bitwise equal to direct
// communication.
#include <catch2/catch.hpp>
#include <memory>

#include "tests/parallel/comm/device_layer.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

// Tensors of the training are in the host's memory, and count as memory of the emulated GPU here. What ranks agree on
// is in host memory on GPUs too.
std::shared_ptr<Communicator> on_device(Communicator& communicator) {
  return on_emulated_device(as_it_is(communicator), staged_on_emulated_device,
                            [](const Request& request) { return request.type != ElementType::uint8; });
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
  check_equal(train_ranks(setting, ranks, all, 5, on_device), train_ranks(setting, ranks, all, 5));
}

}  // namespace llmtrain::test

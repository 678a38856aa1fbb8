// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "parallel/comm/local/local_world.h"
#include "tests/parallel/comm/rank_harness.h"

namespace llmtrain::test {

std::vector<int> rank_counts() { return thread_counts(); }

void on_ranks(int ranks, const std::function<void(Communicator&)>& work) {
  LocalOptions options;
  options.watchdog_seconds = 60;
  LocalWorld world(ranks, options);
  world.run([&](Communicator& communicator) {
    const auto layer = with_layer(std::shared_ptr<Communicator>(&communicator, [](Communicator*) {}));
    work(*layer);
  });
}

void expect(bool condition, const std::string& message) {
  if (!condition) throw std::runtime_error(message);
}

}  // namespace llmtrain::test

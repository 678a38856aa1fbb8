// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "parallel/comm/local/local_world.h"
#include "tests/parallel/comm/rank_harness.h"

namespace llmtrain::test {

std::vector<int> rank_counts() { return thread_counts(); }

// Whatever the ranks did, nothing of their communicators remains: one that refers to itself, by what it remembers,
// never ends what it has connected.
void on_ranks(int ranks, const std::function<void(Communicator&)>& work) {
  std::vector<std::weak_ptr<Communicator>> layers(static_cast<std::size_t>(ranks));
  std::vector<std::weak_ptr<OperationLog>> logs(layers.size());
  {
    LocalOptions options;
    options.watchdog_seconds = 60;
    LocalWorld world(ranks, options);
    world.run([&](Communicator& communicator) {
      const auto layer = with_layer(std::shared_ptr<Communicator>(&communicator, [](Communicator*) {}));
      layers[static_cast<std::size_t>(communicator.rank())] = layer;
      // Communicators share it with what lies above and below them.
      logs[static_cast<std::size_t>(communicator.rank())] = layer->shared_log();
      work(*layer);
    });
  }
  for (const auto& layer : layers) expect(layer.expired(), "a communicator outlives its owner");
  for (const auto& log : logs) expect(log.expired(), "something of a communicator remains");
}

void expect(bool condition, const std::string& message) {
  if (!condition) throw std::runtime_error(message);
}

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
// What the suite does not test: the order of operations and of concurrent computation on a device.
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "parallel/comm/local/local_world.h"
#include "parallel/comm/staged/staged_world.h"
#include "tests/parallel/comm/fake_device.h"
#include "tests/parallel/comm/rank_harness.h"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

constexpr std::int64_t elements = 10007;
constexpr int ranks = 3;

// One rank with a compute stream.
struct DeviceRank {
  explicit DeviceRank(Communicator& host)
      : communicator(stage_through_host(std::shared_ptr<Communicator>(&host, [](Communicator*) {}),
                                        std::make_unique<FakeDevice>(&computation))) {}

  int own() const { return communicator->rank(); }
  const Group& world() const { return communicator->world(); }

  FakeStream computation;
  std::unique_ptr<Communicator> communicator;
};

void on_devices(const std::function<void(DeviceRank&)>& work) {
  LocalOptions options;
  options.watchdog_seconds = 60;
  LocalWorld world(ranks, options);
  world.run([&](Communicator& host) {
    DeviceRank rank(host);
    work(rank);
  });
}

Array array(std::vector<float>& values, Memory memory) {
  return {values.data(), static_cast<std::int64_t>(values.size()), ElementType::float32, memory};
}

void expect_all(const std::vector<float>& values, float value, const char* what) {
  for (const float actual : values)
    expect(actual == value, std::string(what) + ": " + std::to_string(actual) + ", not " + std::to_string(value));
}

constexpr int sum_of_ranks = ranks * (ranks + 1) / 2;

// Memory of a device: released in the order of the compute stream, as the allocators of GPUs do, because copies to it
// may be in flight after wait() has returned.
class DeviceMemory {
 public:
  DeviceMemory(FakeStream& computation, float value)
      : computation_(computation), values_(std::make_shared<std::vector<float>>(elements, value)) {}
  ~DeviceMemory() {
    computation_.put([kept = values_] {});
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Array array() { return {values_->data(), elements, ElementType::float32, Memory::device}; }

 private:
  FakeStream& computation_;
  std::shared_ptr<std::vector<float>> values_;
};

}  // namespace

TEST_CASE("An operation runs after earlier computation and before later computation") {
  on_devices([](DeviceRank& rank) {
    std::vector<float> data(elements, -1), later(elements, -1);
    const FakeMark gate;
    rank.computation.put([&, gate] {
      gate.wait();
      data.assign(data.size(), static_cast<float>(rank.own() + 1));
    });
    Handle handle = rank.communicator->all_reduce(rank.world(), Purpose::data_parallel, array(data, Memory::device));
    // Its input is not ready, and nothing has waited for it.
    expect(!handle.done(), "done before its input was computed");
    gate.pass();
    handle.wait();
    rank.computation.put([&] { later = data; });
    rank.computation.mark().wait();
    expect_all(later, sum_of_ranks, "what comes after all_reduce");
  });
}

TEST_CASE("The output of an operation may be in use until it starts") {
  on_devices([](DeviceRank& rank) {
    std::vector<float> mine(elements, static_cast<float>(rank.own())), all(elements * ranks, -1), before;
    const FakeMark gate;
    rank.computation.put([&, gate] {
      gate.wait();
      before = all;
    });
    Handle handle = rank.communicator->all_gather(rank.world(), Purpose::data_parallel, array(mine, Memory::device),
                                                  array(all, Memory::device));
    gate.pass();
    handle.wait();
    rank.computation.mark().wait();
    expect_all(before, -1, "the output before all_gather");
    for (int other = 0; other < ranks; ++other)
      expect(all[static_cast<std::size_t>(other * elements)] == static_cast<float>(other), "the output of all_gather");
  });
}

TEST_CASE("Operations on both memories reach the host in the order of their start") {
  on_devices([](DeviceRank& rank) {
    std::vector<float> device(elements, static_cast<float>(rank.own() + 1)), host(elements, 1);
    const FakeMark gate;
    // One rank's computation takes longer than that of the others.
    if (rank.own() == 1) rank.computation.put([gate] { gate.wait(); });
    Handle first = rank.communicator->all_reduce(rank.world(), Purpose::data_parallel, array(device, Memory::device));
    Handle second = rank.communicator->all_reduce(rank.world(), Purpose::control, array(host, Memory::host));
    gate.pass();
    second.wait();
    first.wait();
    rank.computation.mark().wait();
    expect_all(device, sum_of_ranks, "the device's memory");
    expect_all(host, ranks, "the host's memory");
  });
}

TEST_CASE("A message to a rank that is computing does not block its sender") {
  on_devices([](DeviceRank& rank) {
    std::vector<float> out(elements, static_cast<float>(rank.own())), in(elements, -1);
    const int next = (rank.own() + 1) % ranks, previous = (rank.own() + ranks - 1) % ranks;
    Handle sent = rank.communicator->send(rank.world(), Purpose::pipeline, array(out, Memory::device), next);
    rank.communicator->barrier(rank.world()).wait();
    rank.communicator->receive(rank.world(), Purpose::pipeline, array(in, Memory::device), previous).wait();
    sent.wait();
    rank.computation.mark().wait();
    expect_all(in, static_cast<float>(previous), "a message");
  });
}

TEST_CASE("A rank that fails also ends ranks whose computation does not finish") {
  const FakeMark gate;
  // Copies that are still in flight after a failure read it.
  std::vector<float> data(elements, 1);
  try {
    on_devices([&](DeviceRank& rank) {
      if (rank.own() == 1) {
        rank.communicator->abort(ExitCode::rank_lost, "the reason");
        throw Error(ExitCode::rank_lost, "the reason");
      }
      rank.computation.put([gate] { gate.wait(); });
      Handle handle;
      std::string said;
      try {
        // Throws by itself if the failure is already known.
        handle = rank.communicator->all_reduce(rank.world(), Purpose::data_parallel, array(data, Memory::device));
        handle.wait();
      } catch (const Error& error) {
        said = error.what();
      }
      gate.pass();
      rank.computation.mark().wait();
      expect(said == "rank 1: the reason", "said: " + said);
    });
    FAIL("it goes on");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::rank_lost);
  }
}

TEST_CASE("An exception may leave operations in flight: their memory is released") {
  CHECK_THROWS_WITH(on_devices([](DeviceRank& rank) {
                      DeviceMemory data(rank.computation, 1);
                      std::vector<float> never_waited(elements, 1);
                      Handle first = rank.communicator->all_reduce(rank.world(), Purpose::data_parallel, data.array());
                      if (rank.own() == 2) throw Error(ExitCode::internal_error, "the reason");
                      Handle second = rank.communicator->all_reduce(rank.world(), Purpose::data_parallel,
                                                                    array(never_waited, Memory::device));
                      first.wait();
                      second.wait();
                    }),
                    "the reason");
}

TEST_CASE("The log counts an operation once, under its purpose") {
  on_devices([](DeviceRank& rank) {
    std::vector<float> data(elements, 1);
    rank.communicator->all_reduce(rank.world(), Purpose::tensor_parallel, array(data, Memory::device)).wait();
    rank.computation.mark().wait();
    const std::vector<CommunicationCount> counts = rank.communicator->log().counts();
    expect(counts.size() == 1, "one kind of operation");
    expect(counts[0].calls == 1 && counts[0].purpose == Purpose::tensor_parallel, "one call");
    expect(counts[0].bytes == 2.0 * (ranks - 1) / ranks * elements * 4, "the ring's bytes");
    expect(counts[0].seconds > 0 && counts[0].waited_seconds > 0, "its seconds");
  });
}

TEST_CASE("Input and output are in the same memory") {
  on_devices([](DeviceRank& rank) {
    std::vector<float> mine(1), all(ranks);
    std::string said;
    try {
      rank.communicator->all_gather(rank.world(), Purpose::control, array(mine, Memory::device),
                                    array(all, Memory::host));
    } catch (const Error& error) {
      said = error.what();
    }
    expect(said.find("must both be in host memory or both in device memory") != std::string::npos, said);
  });
}

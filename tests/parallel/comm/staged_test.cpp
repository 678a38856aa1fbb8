// SPDX-License-Identifier: Apache-2.0
// What the suite does not test: the order of operations and of concurrent computation on a device.
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "parallel/comm/local/local_world.h"
#include "tests/emulator/device/runtime.h"
#include "tests/parallel/comm/device_layer.h"
#include "tests/parallel/comm/rank_harness.h"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

constexpr std::int64_t elements = 10007;
constexpr int ranks = 3;

// What keeps computation waiting until it is opened.
class Gate {
 public:
  // In front of what the calling thread enqueues from now on.
  void hold_computation() const {
    emulated::enqueue(emulated::current_stream(emulated::current_device()),
                      {"a gate", {}, [opened = opened_] { opened.wait(); }});
  }
  void open() { open_.set_value(); }

 private:
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future();
};

// One rank with a device.
struct DeviceRank {
  explicit DeviceRank(Communicator& host)
      : device(c10::kCUDA, static_cast<c10::DeviceIndex>(host.rank())),
        device_before(emulated::exchange_device(host.rank())),
        communicator(staged_on_emulated_device(std::shared_ptr<Communicator>(&host, [](Communicator*) {}), device)) {}

  int own() const { return communicator->rank(); }
  const Group& world() const { return communicator->world(); }
  at::Tensor full(double value, std::int64_t count = elements) const {
    return at::full({count}, value, at::TensorOptions(at::kFloat).device(device));
  }

  c10::Device device;
  int device_before;
  std::shared_ptr<Communicator> communicator;
};

// A race between streams makes it throw.
void on_devices(const std::function<void(DeviceRank&)>& work) {
  LocalOptions options;
  options.watchdog_seconds = 60;
  LocalWorld world(ranks, options);
  world.run([&](Communicator& host) {
    DeviceRank rank(host);
    work(rank);
  });
}

Array array(const at::Tensor& values) {
  return {values.data_ptr(), values.numel(), ElementType::float32, values.is_cpu() ? Memory::host : Memory::device};
}

void expect_all(const at::Tensor& values, double value, const char* what) {
  const at::Tensor here = values.cpu();
  expect(here.equal(at::full_like(here, value)), std::string(what) + " is not " + std::to_string(value));
}

constexpr int sum_of_ranks = ranks * (ranks + 1) / 2;

}  // namespace

TEST_CASE("An operation runs after earlier computation and before later computation") {
  on_devices([](DeviceRank& rank) {
    const at::Tensor data = rank.full(-1);
    Gate gate;
    gate.hold_computation();
    data.fill_(rank.own() + 1);
    Handle handle = rank.communicator->all_reduce(rank.world(), Purpose::data_parallel, array(data));
    // Its input is not ready, and nothing has waited for it.
    expect(!handle.done(), "done before its input was computed");
    gate.open();
    handle.wait();
    const at::Tensor later = data.clone();
    expect_all(later, sum_of_ranks, "what comes after all_reduce");
  });
}

TEST_CASE("The output of an operation may be in use until it starts") {
  on_devices([](DeviceRank& rank) {
    const at::Tensor mine = rank.full(rank.own()), all = rank.full(-1, elements * ranks);
    Gate gate;
    gate.hold_computation();
    const at::Tensor before = all.clone();
    Handle handle = rank.communicator->all_gather(rank.world(), Purpose::data_parallel, array(mine), array(all));
    gate.open();
    handle.wait();
    expect_all(before, -1, "the output before all_gather");
    for (int other = 0; other < ranks; ++other)
      expect_all(all.narrow(0, other * elements, elements), other, "the output of all_gather");
  });
}

TEST_CASE("Operations on both memories reach the host in the order of their start") {
  on_devices([](DeviceRank& rank) {
    const at::Tensor device = rank.full(rank.own() + 1), host = at::ones({elements});
    Gate gate;
    // One rank's computation takes longer than that of the others.
    if (rank.own() == 1) {
      gate.hold_computation();
      device.mul_(1);
    }
    Handle first = rank.communicator->all_reduce(rank.world(), Purpose::data_parallel, array(device));
    Handle second = rank.communicator->all_reduce(rank.world(), Purpose::control, array(host));
    gate.open();
    second.wait();
    first.wait();
    expect_all(device, sum_of_ranks, "the device's memory");
    expect_all(host, ranks, "the host's memory");
  });
}

TEST_CASE("A message to a rank that is computing does not block its sender") {
  on_devices([](DeviceRank& rank) {
    const at::Tensor out = rank.full(rank.own()), in = rank.full(-1);
    const int next = (rank.own() + 1) % ranks, previous = (rank.own() + ranks - 1) % ranks;
    Handle sent = rank.communicator->send(rank.world(), Purpose::pipeline, array(out), next);
    rank.communicator->barrier(rank.world()).wait();
    rank.communicator->receive(rank.world(), Purpose::pipeline, array(in), previous).wait();
    sent.wait();
    expect_all(in, previous, "a message");
  });
}

TEST_CASE("A rank that fails also ends ranks whose computation does not finish") {
  try {
    on_devices([&](DeviceRank& rank) {
      if (rank.own() == 1) {
        rank.communicator->abort(ExitCode::rank_lost, "the reason");
        throw Error(ExitCode::rank_lost, "the reason");
      }
      const at::Tensor data = rank.full(1);
      Gate gate;
      gate.hold_computation();
      data.mul_(1);
      Handle handle;
      std::string said;
      try {
        // Throws by itself if the failure is already known.
        handle = rank.communicator->all_reduce(rank.world(), Purpose::data_parallel, array(data));
        handle.wait();
      } catch (const Error& error) {
        said = error.what();
      }
      gate.open();
      expect(said == "rank 1: the reason", "said: " + said);
    });
    FAIL("it goes on");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::rank_lost);
  }
}

TEST_CASE("An exception may leave operations in flight: their memory is released") {
  CHECK_THROWS_WITH(on_devices([](DeviceRank& rank) {
                      const at::Tensor data = rank.full(1), never_waited = rank.full(1);
                      Handle first = rank.communicator->all_reduce(rank.world(), Purpose::data_parallel, array(data));
                      if (rank.own() == 2) throw Error(ExitCode::internal_error, "the reason");
                      Handle second =
                          rank.communicator->all_reduce(rank.world(), Purpose::data_parallel, array(never_waited));
                      first.wait();
                      second.wait();
                    }),
                    "the reason");
}

TEST_CASE("The log counts an operation once, under its purpose") {
  on_devices([](DeviceRank& rank) {
    const at::Tensor data = rank.full(1);
    rank.communicator->all_reduce(rank.world(), Purpose::tensor_parallel, array(data)).wait();
    const std::vector<CommunicationCount> counts = rank.communicator->log().counts();
    expect(counts.size() == 1, "one kind of operation");
    expect(counts[0].calls == 1 && counts[0].purpose == Purpose::tensor_parallel, "one call");
    expect(counts[0].bytes == 2.0 * (ranks - 1) / ranks * elements * 4, "the ring's bytes");
    expect(counts[0].seconds > 0 && counts[0].waited_seconds > 0, "its seconds");
  });
}

TEST_CASE("Input and output are in the same memory") {
  on_devices([](DeviceRank& rank) {
    const at::Tensor mine = rank.full(0, 1), all = at::ones({ranks});
    std::string said;
    try {
      rank.communicator->all_gather(rank.world(), Purpose::control, array(mine), array(all));
    } catch (const Error& error) {
      said = error.what();
    }
    expect(said.find("must both be in host memory or both in device memory") != std::string::npos, said);
  });
}

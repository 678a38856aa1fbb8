// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "parallel/comm/local/local_world.h"
#include "tests/parallel/comm/numbers.h"
#include "tests/parallel/comm/rank_harness.h"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

// The error of every rank: "" for those that ended without one.
struct Outcome {
  ExitCode code = ExitCode::done;
  std::string message;
};

std::vector<Outcome> outcomes(LocalWorld& world, int ranks, const std::function<void(Communicator&)>& work) {
  std::vector<Outcome> result(static_cast<std::size_t>(ranks));
  try {
    world.run([&](Communicator& communicator) {
      try {
        work(communicator);
      } catch (const Error& error) {
        result[static_cast<std::size_t>(communicator.rank())] = {error.code(), error.what()};
        throw;
      }
    });
  } catch (const Error&) {
  }
  return result;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a rank that throws ends the others with its message") {
  for (const int ranks : {2, 4, 8}) {
    LocalWorld world(ranks);
    const std::vector<Outcome> seen = outcomes(world, ranks, [](Communicator& communicator) {
      Values data(ElementType::float32, 100000);
      communicator.all_reduce(communicator.world(), Purpose::data_parallel, data.array()).wait();
      Handle open = communicator.all_reduce(communicator.world(), Purpose::data_parallel, data.array());
      if (communicator.rank() == 1) throw Error(ExitCode::bad_data, "shard 3 is broken");
      Values other(ElementType::float32, 100000);
      communicator.all_reduce(communicator.world(), Purpose::data_parallel, other.array()).wait();
    });
    for (int rank = 0; rank < ranks; ++rank) {
      const Outcome& outcome = seen[static_cast<std::size_t>(rank)];
      CHECK(outcome.code == ExitCode::bad_data);
      CHECK(outcome.message == (rank == 1 ? "shard 3 is broken" : "rank 1: shard 3 is broken"));
    }
  }
}

TEST_CASE("any exception ends the world, and run throws the first one") {
  LocalWorld world(3);
  CHECK_THROWS_WITH(world.run([](Communicator& communicator) {
    if (communicator.rank() == 2) throw std::runtime_error("out of paper");
    communicator.barrier(communicator.world()).wait();
  }),
                    Catch::Contains("out of paper"));
}

TEST_CASE("a rank that hangs is named with its last operation, and no rank keeps waiting") {
  LocalOptions options;
  options.watchdog_seconds = 2;
  LocalWorld world(3, options);
  std::atomic<int> ended{0};
  const std::vector<Outcome> seen = outcomes(world, 3, [&](Communicator& communicator) {
    Values data(ElementType::bfloat16, 64);
    communicator.all_gather(communicator.world(), Purpose::control, {}, {}).wait();
    communicator.log().set_activity(3, "forward stage " + std::to_string(communicator.rank()) + " micro 0");
    if (communicator.rank() == 2) {
      while (ended < 2) std::this_thread::yield();
      return;
    }
    struct Count {
      std::atomic<int>& number;
      ~Count() { ++number; }
    } count{ended};
    communicator.all_reduce(communicator.world(), Purpose::tensor_parallel, data.array()).wait();
  });
  CHECK(seen[2].message.empty());
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(seen[rank].code == ExitCode::rank_lost);
    CHECK(contains(seen[rank].message, "in all_reduce of 64 bf16 for tensor_parallel in group world [0 1 2]"));
    CHECK(contains(seen[rank].message, "for rank 2 (last operation: all_gather of 0 uint8 for control"));
    CHECK(contains(seen[rank].message, "launch.watchdog_seconds"));
    // One of the two has noticed it, and speaks for both: where it is itself, and where the rank that hangs is.
    CHECK((contains(seen[rank].message, "in step 3, forward stage 0 micro 0, in all_reduce") ||
           contains(seen[rank].message, "in step 3, forward stage 1 micro 0, in all_reduce")));
    CHECK(contains(seen[rank].message, "ago, in step 3, forward stage 2 micro 0)"));
  }
}

TEST_CASE("a rank that does not end is named, and the caller ends the program") {
  LocalOptions options;
  options.patience_seconds = 0.05;
  std::atomic<bool> is_over{false};
  std::optional<Error> given;
  options.abandon = [&](const Error& error) {
    given = error;
    is_over = true;  // a program would end here
  };
  LocalWorld world(3, options);
  CHECK_THROWS_WITH(world.run([&](Communicator& communicator) {
    if (communicator.rank() == 0) throw Error(ExitCode::bad_data, "shard 3 is broken");
    while (!is_over) std::this_thread::yield();
  }),
                    "shard 3 is broken");
  REQUIRE(given);
  CHECK(given->code() == ExitCode::bad_data);
  CHECK(std::string(given->what()) == "shard 3 is broken; rank 1, rank 2 did not end on its own");
}

TEST_CASE("the watchdog also works for a rank that only polls, and for a message without its counterpart") {
  LocalOptions options;
  options.watchdog_seconds = 0.1;
  LocalWorld world(2, options);
  const std::vector<Outcome> seen = outcomes(world, 2, [](Communicator& communicator) {
    if (communicator.rank() == 1) return;
    Values data(ElementType::float32, 8);
    Handle handle = communicator.receive(communicator.world(), Purpose::pipeline, data.array(), 1);
    while (!handle.done()) std::this_thread::yield();
    handle.wait();
  });
  CHECK(seen[0].code == ExitCode::rank_lost);
  CHECK(contains(seen[0].message, "receive of 8 fp32 from rank 1 for pipeline in group world [0 1] for rank 1"));
}

TEST_CASE("mismatched requests are an error that names both") {
  LocalWorld world(2);
  const std::vector<Outcome> seen = outcomes(world, 2, [](Communicator& communicator) {
    Values data(ElementType::float32, 8 + communicator.rank());
    communicator.all_reduce(communicator.world(), Purpose::data_parallel, data.array()).wait();
  });
  for (const Outcome& outcome : seen) {
    CHECK(outcome.code == ExitCode::internal_error);
    CHECK(contains(outcome.message, "all_reduce of 8 fp32"));
    CHECK(contains(outcome.message, "all_reduce of 9 fp32"));
  }
}

TEST_CASE("after a failure nothing starts, and the failure can be read") {
  LocalWorld world(2);
  const std::vector<Outcome> seen = outcomes(world, 2, [](Communicator& communicator) {
    expect(!communicator.failure() || communicator.rank() == 0, "no failure yet");
    if (communicator.rank() == 1) communicator.abort(ExitCode::stopped, "enough");
    while (!communicator.failure()) std::this_thread::yield();
    expect(communicator.failure()->rank == 1 && communicator.failure()->message == "enough", "failure");
    communicator.barrier(communicator.world());
  });
  CHECK(seen[0].message == "rank 1: enough");
  CHECK(seen[1].message == "enough");
  CHECK(seen[0].code == ExitCode::stopped);
}

TEST_CASE("another thread reads a rank's operations concurrently") {
  LocalWorld world(2);
  world.run([](Communicator& communicator) {
    std::atomic<bool> stop{false};
    std::thread reader([&] {
      while (!stop) {
        for (const OperationRecord& record : communicator.log().last_operations())
          expect(!record.description.empty(), "a record without words");
      }
    });
    Values data(ElementType::float32, 300);
    for (int i = 0; i < 200; ++i) communicator.all_reduce(communicator.world(), Purpose::control, data.array()).wait();
    stop = true;
    reader.join();
  });
}

TEST_CASE("the destructor of a handle waits for its operation") {
  LocalWorld world(2);
  world.run([](Communicator& communicator) {
    Values data(ElementType::float32, 100000);
    for (std::int64_t i = 0; i < data.count(); ++i) data.set(i, 1);
    { const Handle handle = communicator.all_reduce(communicator.world(), Purpose::control, data.array()); }
    for (std::int64_t i = 0; i < data.count(); ++i) expect(data.get(i) == 2, "the sum is in place");
  });
}

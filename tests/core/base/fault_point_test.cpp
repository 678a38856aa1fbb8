// SPDX-License-Identifier: Apache-2.0
#include "core/base/fault_point.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <span>
#include <string>

#include "core/base/error.h"
#include "tests/support/child_process.h"

using namespace llmtrain;

namespace {

// What happens at the place with this request. In a process of its own, because the request is read once.
std::string outcome(const char* request, FaultPlace place, std::int64_t rank, std::int64_t step) {
  return test::in_child([=]() -> std::string {
    ::setenv("LLMTRAIN_FAULT", request, 1);
    try {
      fault_point(place, rank, step);
    } catch (const Error& error) {
      return std::to_string(static_cast<int>(error.code())) + " " + error.what();
    }
    return "nothing";
  });
}

}  // namespace

TEST_CASE("a fault happens at its place, rank and step alone") {
  CHECK(outcome("fail:save:1:20", FaultPlace::save, 1, 20) == "73 fault on demand: save at step 20");
  CHECK(outcome("fail:save:1:20", FaultPlace::commit, 1, 20) == "nothing");
  CHECK(outcome("fail:save:1:20", FaultPlace::save, 0, 20) == "nothing");
  CHECK(outcome("fail:save:1:20", FaultPlace::save, 1, 19) == "nothing");
  CHECK(outcome("", FaultPlace::save, 1, 20) == "nothing");
}

TEST_CASE("a fault throws what nobody expects, or kills") {
  CHECK(outcome("throw:forward:0:1", FaultPlace::forward, 0, 1) == "threw: fault on demand: forward at step 1");
  CHECK(outcome("kill:data:0:1", FaultPlace::data, 0, 1) == "killed by signal 9");
}

TEST_CASE("a fault changes one bit of the memory that it is given") {
  const std::string changed = test::in_child([] {
    ::setenv("LLMTRAIN_FAULT", "flip:weights:2:7", 1);
    std::array<std::byte, 2> memory{std::byte{4}, std::byte{8}};
    fault_point(FaultPlace::weights, 2, 7, memory);
    fault_point(FaultPlace::weights, 2, 8, memory);
    return std::to_string(static_cast<int>(memory[0])) + " " + std::to_string(static_cast<int>(memory[1]));
  });
  CHECK(changed == "5 8");
}

TEST_CASE("a fault replaces a number in the memory that it is given") {
  const auto first_number = [](const char* request) {
    return test::in_child([=] {
      ::setenv("LLMTRAIN_FAULT", request, 1);
      std::array<float, 2> memory{0.25F, 0.5F};
      fault_point(FaultPlace::gradients, 0, 3, std::as_writable_bytes(std::span(memory)));
      fault_point(FaultPlace::gradients, 0, 3, std::as_writable_bytes(std::span(memory).first(0)));
      return std::to_string(memory[0]) + " " + std::to_string(memory[1]);
    });
  };
  CHECK_THAT(first_number("nan:gradients:0:3"), Catch::Contains("nan") && Catch::EndsWith(" 0.500000"));
  CHECK(first_number("spike:gradients:0:3") == "1048576.000000 0.500000");
  CHECK(first_number("spike:weights:0:3") == "0.250000 0.500000");
}

TEST_CASE("a rank's memory grows from the step on that is requested") {
  const std::string grown = test::in_child([]() -> std::string {
    ::setenv("LLMTRAIN_FAULT", "grow:memory:1:3", 1);
    std::string steps;
    for (const std::int64_t rank : {0, 1})
      for (std::int64_t step = 1; step < 6; ++step) steps += has_grown(rank, step) ? '+' : '-';
    fault_point(FaultPlace::memory, 1, 3);
    return steps;
  });
  CHECK(grown == "-------+++");
}

TEST_CASE("a request for a fault that cannot be read is refused") {
  for (const char* request : {"fail", "fail:save:1", "fail:save:1:20:3", "hang:save:1:20", "fail:nowhere:1:20",
                              "fail:save:x:20", "fail:save:1:", "fail:save:1:2x"})
    CHECK_THAT(outcome(request, FaultPlace::save, 1, 20), Catch::StartsWith("2 LLMTRAIN_FAULT: \""));
}

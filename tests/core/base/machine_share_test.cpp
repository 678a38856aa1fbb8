// SPDX-License-Identifier: Apache-2.0
#include "core/machine/machine_share.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace llmtrain {
namespace {

using Names = std::vector<std::string>;

Names gpus_of(const std::vector<MachineShare>& shares) {
  Names found;
  for (const MachineShare& share : shares) found.push_back(share.gpus);
  return found;
}

}  // namespace

TEST_CASE("Visible GPUs have the names that CUDA gives them") {
  CHECK(visible_gpu_names(3, nullptr) == Names{"0", "1", "2"});
  CHECK(visible_gpu_names(8, "5,GPU-1a2b,2") == Names{"5", "GPU-1a2b", "2"});
  CHECK(visible_gpu_names(8, "4,-1,5") == Names{"4"});
  CHECK(visible_gpu_names(8, "").empty());
  CHECK(visible_gpu_names(0, nullptr).empty());
}

TEST_CASE("Runs at a time share cores, and have GPUs of their own") {
  const auto shares = machine_shares(2, 2, 12, {"4", "5", "6", "7", "8"});
  CHECK(gpus_of(shares) == Names{"4,5", "6,7"});
  CHECK(shares[0].threads == 3);
  CHECK(shares[1].threads == 3);
  CHECK(machine_shares(3, 2, 4, {})[2].threads == 1);
  CHECK(gpus_of(machine_shares(3, 2, 4, {})) == Names{"", "", ""});
}

TEST_CASE("A run alone has the machine as it is") {
  const auto shares = machine_shares(1, 2, 12, {"0"});
  REQUIRE(shares.size() == 1);
  CHECK_FALSE(shares[0].threads);
  CHECK(shares[0].gpus.empty());
}

TEST_CASE("More runs than the GPUs are enough for are refused") {
  try {
    machine_shares(3, 2, 12, {"0", "1", "2", "3", "4"});
    FAIL("nothing was refused");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_recipe);
    CHECK(std::string(error.what()) == "--jobs: 3 runs of 2 ranks need 6 GPUs, and 5 are visible; must be at most 2");
  }
}

}  // namespace llmtrain

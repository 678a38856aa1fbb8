// SPDX-License-Identifier: Apache-2.0
// LibTorch seeds its default generator differently in each process. With the same numbers in each run a tolerance holds
// always or never.
#include <ATen/Context.h>

#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>

namespace {

struct SeedListener : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    TestEventListenerBase::testCaseStarting(test);
    at::manual_seed(1234);
  }
};

CATCH_REGISTER_LISTENER(SeedListener)

}  // namespace

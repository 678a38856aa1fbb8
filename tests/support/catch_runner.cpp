// SPDX-License-Identifier: Apache-2.0
#include "tests/support/catch_runner.h"

#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

int llmtrain::test::run_test_cases(int count, char** arguments) { return Catch::Session().run(count, arguments); }

// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain::test {

// Runs the test cases that the program's arguments choose, all where they choose none; returns how many failed.
int run_test_cases(int count, char** arguments);

}  // namespace llmtrain::test

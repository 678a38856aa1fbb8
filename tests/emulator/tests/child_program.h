// SPDX-License-Identifier: Apache-2.0
// Programs on the emulated device, each in a process of its own: a device's errors stay, and some faults end the
// process.
#pragma once

#include <functional>
#include <string>

namespace emulated::test {

struct Outcome {
  int exit_code = 0;  // 128 + signal if it was killed
  std::string text;   // all that it printed
};

// Runs the program in a copy of this process, which must not have used a device. Ends with 0, or with 85 and the text
// of what it threw.
Outcome outcome_of(const std::function<void()>& program);

void must_be_right(const std::function<void()>& program);                          // ends with 0
void must_be_caught(const std::string& by, const std::function<void()>& program);  // fails, and prints `by`

// In a program: throws unless it holds.
void expect(bool holds, const std::string& what);

}  // namespace emulated::test

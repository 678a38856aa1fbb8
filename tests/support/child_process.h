// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace llmtrain::test {

// Runs `work` in a copy of this process, so that limits and mounts that it sets do not persist, and returns its result;
// "killed by signal N" if it was killed, "threw: …" if it threw.
std::string in_child(const std::function<std::string()>& work);

// Runs `work` in a copy of this process which is killed before its system call number `call` (from 0). Returns whether
// it was killed; false: it ended before. Throws std::runtime_error if processes may not be traced.
bool killed_at_system_call(int call, const std::function<void()>& work);

}  // namespace llmtrain::test

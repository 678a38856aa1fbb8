// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace llmtrain::test {

// Runs `work` in a copy of this process, so that limits and mounts that it sets do not persist, and returns its result;
// "killed by signal N" if it was killed, "threw: …" if it threw.
std::string in_child(const std::function<std::string()>& work);

// Runs `work` in a copy of this process which is killed in front of its system call number `call` (from 0). Returns
// whether it was killed; false: it ended before. Throws std::runtime_error where processes may not be traced, which
// needs ptrace.
bool killed_at_system_call(int call, const std::function<void()>& work);

// Whether killed_at_system_call() can be used; warns that the case is skipped where not.
bool tracing_is_allowed();

}  // namespace llmtrain::test

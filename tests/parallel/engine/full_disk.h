// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace llmtrain::test {

// Leaves about `bytes` of room in the (empty) folder, for this process alone, which should be a child of the test's: a
// file system of that size where mounting one is allowed, else a limit on the size of each file. Returns the reason
// that a write then fails for ("No space left on device").
std::string limit_room(const std::filesystem::path& folder, std::size_t bytes);

}  // namespace llmtrain::test

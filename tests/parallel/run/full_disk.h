// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace llmtrain::test {

// Leaves about `bytes` of free space in the (empty) folder, only for this process, which should be a child of the
// test's: a file system of that size if mounting is allowed, otherwise a limit on the size of each file. Returns the
// reason with which a write then fails ("No space left on device").
std::string limit_room(const std::filesystem::path& folder, std::size_t bytes);

}  // namespace llmtrain::test

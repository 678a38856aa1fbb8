// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace llmtrain::test {

// The repository's root, for tests that read its files. A function, because a macro with a path would keep other
// checkouts from finding a test again in the compiler cache.
std::filesystem::path source_folder();

}  // namespace llmtrain::test

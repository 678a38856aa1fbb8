// SPDX-License-Identifier: Apache-2.0
#include "tests/support/source_folder.h"

namespace llmtrain::test {

std::filesystem::path source_folder() { return LLMTRAIN_SOURCE_DIR; }

}  // namespace llmtrain::test

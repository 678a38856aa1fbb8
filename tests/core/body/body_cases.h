// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/core/body/body_under_test.h"

namespace llmtrain::body::test {

// One primitive each, of extents that are all different, so that axes cannot be mistaken for each other. Dropout is
// none of them.
std::vector<BodyCase> primitive_cases();
// Bodies of several steps, in which tensors have several readers.
std::vector<BodyCase> composed_cases();

}  // namespace llmtrain::body::test

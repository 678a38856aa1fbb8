// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/body/body_writer.h"
#include "tests/core/body/body_under_test.h"

namespace llmtrain::body::test {

// One primitive each, of extents that are all different, so that axes cannot be mistaken for each other. Dropout is
// none of them.
std::vector<BodyCase> primitive_cases();
// Some of them: attention, what is of images, and what reads numbers of rows.
std::vector<BodyCase> attention_cases();
std::vector<BodyCase> image_cases();
std::vector<BodyCase> lookup_cases();
// Images cut into patches, each a token with features: ViT's first step.
BodyCase patches_case();
// What finds the smallest elements, and what factors matrices and solves with them.
std::vector<BodyCase> point_cases();
// Bodies of several steps, in which tensors have several readers.
std::vector<BodyCase> composed_cases();

// The body with that output.
Body finished(BodyWriter& writer, TensorId output);

}  // namespace llmtrain::body::test

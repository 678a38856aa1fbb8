// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace llmtrain::test {

// Files of one image of 9×7 pixels, whose red is (25x + 3y) mod 256, green (30y + x) mod 256 and blue (5xy + 10) mod
// 256: exactly in the PNG file, and nearly in the JPEG file.
extern const std::vector<unsigned char> small_png, small_jpeg, small_progressive_jpeg;

}  // namespace llmtrain::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/data/images/image.h"

namespace llmtrain {

// A part of an image, which lies within it.
struct ImageBox {
  std::int64_t top = 0, left = 0, height = 0, width = 0;

  bool operator==(const ImageBox&) const = default;
};

struct ImageSize {
  std::int64_t height = 0, width = 0;

  bool operator==(const ImageSize&) const = default;
};

Image cropped(const Image& image, const ImageBox& box);

// Bilinear, where an image shrinks over all the pixels that one of the result covers, so that fine patterns do not
// alias: first along rows, then along columns, rounded to eight bits after each; columns come first where the image
// grows wider and less high. The arithmetic is Pillow's (resize() with Resampling.BILINEAR; its
// src/libImaging/Resample.c), which torchvision uses for images: weights of 22 bits after the point. `size` is not
// empty.
Image resized(const Image& image, const ImageSize& size);

// With the shorter side of `side` pixels, the longer one rounded down, as torchvision's Resize(side) has it.
ImageSize with_shorter_side(const ImageSize& size, std::int64_t side);

}  // namespace llmtrain

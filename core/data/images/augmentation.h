// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "core/data/images/image.h"
#include "core/data/images/resize.h"
#include "core/recipe/data_recipe.h"

namespace llmtrain {

// How pixels are made of images: of training images a random part, resized, and perhaps mirrored (Szegedy et al., arXiv
// 1409.4842); of others the middle.
struct ImageView {
  ImageSize size{224, 224};
  std::array<double, image_channels> mean{0.485, 0.456, 0.406};  // of ImageNet's images, of 0 … 1
  std::array<double, image_channels> deviation{0.229, 0.224, 0.225};

  // What a random part may be: its share of the image's area, and its width ÷ height.
  std::array<double, 2> area{0.08, 1};
  std::array<double, 2> ratio{3.0 / 4, 4.0 / 3};
  double mirrored = 0.5;  // the probability of it

  // Whether training draws such parts; else it sees what evaluations do.
  bool is_drawn = true;

  // The shorter side of an image before its middle is cut out; none: all of the image is seen, stretched.
  std::optional<std::int64_t> evaluated_side = 256;
};

// What a recipe says of the images that a model reads, of `size` pixels a side.
ImageView view_of(const ImagesRecipe& images, std::int64_t size);

// What is done with an image of a sample.
struct DrawnView {
  ImageBox box{};
  bool is_mirrored = false;
};

// As torchvision's RandomResizedCrop and RandomHorizontalFlip draw: an area and the logarithm of a ratio, evenly, up to
// ten times until a part of these fits; else the largest middle part of an allowed ratio. A function of the view, the
// key and the image's size alone, whose values may never change.
DrawnView drawn_view(const ImageView& view, std::uint64_t key, const ImageSize& image);

// [channels, height, width] of the view's size: (byte ÷ 255 − mean) ÷ deviation. `pixels` has room for just these.
void write_training_pixels(const ImageView& view, const Image& image, const DrawnView& drawn, std::span<float> pixels);
void write_evaluation_pixels(const ImageView& view, const Image& image, std::span<float> pixels);

}  // namespace llmtrain

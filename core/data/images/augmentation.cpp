// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/augmentation.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/data/draws.h"

namespace llmtrain {
namespace {

double between(Draws& draws, double low, double high) { return low + (high - low) * draws.share(); }

constexpr int most_tries = 10;

ImageBox middle(const ImageSize& image, const ImageSize& part) {
  // Halves are rounded to even, as Python's round() does.
  const auto begin = [](std::int64_t whole, std::int64_t length) {
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(whole - length) / 2));
  };
  return {begin(image.height, part.height), begin(image.width, part.width), part.height, part.width};
}

std::int64_t nearest(double extent) { return std::max<std::int64_t>(1, std::llround(extent)); }

ImageBox largest_middle(const ImageView& view, const ImageSize& image) {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  ImageSize part = image;
  if (width / height < view.ratio[0]) part.height = std::min(image.height, nearest(width / view.ratio[0]));
  if (width / height > view.ratio[1]) part.width = std::min(image.width, nearest(height * view.ratio[1]));
  return {(image.height - part.height) / 2, (image.width - part.width) / 2, part.height, part.width};
}

ImageBox drawn_box(const ImageView& view, const ImageSize& image, Draws& draws) {
  const double area = static_cast<double>(image.height) * static_cast<double>(image.width);
  for (int i = 0; i < most_tries; ++i) {
    const double drawn_area = area * between(draws, view.area[0], view.area[1]);
    const double ratio = std::exp(between(draws, std::log(view.ratio[0]), std::log(view.ratio[1])));
    const auto width = std::llround(std::sqrt(drawn_area * ratio)),
               height = std::llround(std::sqrt(drawn_area / ratio));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    const std::int64_t top = draws.below(image.height - height + 1);
    return {top, draws.below(image.width - width + 1), height, width};
  }
  return largest_middle(view, image);
}

void write_normalised(const ImageView& view, const Image& image, bool is_mirrored, std::span<float> pixels) {
  const std::int64_t each = image.height * image.width;
  if (static_cast<std::int64_t>(pixels.size()) != each * image_channels)
    throw std::invalid_argument("the memory has another size than the pixels");
  for (std::size_t channel = 0; channel < image_channels; ++channel) {
    std::array<float, 256> values{};
    for (std::size_t byte = 0; byte < values.size(); ++byte)
      values[byte] =
          static_cast<float>((static_cast<double>(byte) / 255 - view.mean[channel]) / view.deviation[channel]);
    float* into = pixels.data() + channel * static_cast<std::size_t>(each);
    for (std::int64_t y = 0; y < image.height; ++y) {
      const std::span<const std::uint8_t> row = image.row(y);
      for (std::int64_t x = 0; x < image.width; ++x) {
        const std::int64_t from = is_mirrored ? image.width - 1 - x : x;
        *into++ = values[row[static_cast<std::size_t>(from * image_channels) + channel]];
      }
    }
  }
}

std::array<double, image_channels> values_of(const ColoursRecipe& colours) {
  return {colours.red, colours.green, colours.blue};
}

}  // namespace

ImageView view_of(const ImagesRecipe& images, std::int64_t size) {
  ImageView view{.size = {size, size},
                 .mean = values_of(images.mean),
                 .deviation = values_of(images.deviation),
                 .is_drawn = images.augmentation.has_value(),
                 .evaluated_side = shorter_side(images, size)};
  if (images.fit == ImageFit::stretch) view.evaluated_side.reset();
  if (!images.augmentation) return view;
  const ImageAugmentationRecipe& drawn = *images.augmentation;
  view.area = {drawn.least_area, drawn.most_area};
  view.ratio = {drawn.least_ratio, drawn.most_ratio};
  view.mirrored = drawn.mirrored;
  return view;
}

DrawnView drawn_view(const ImageView& view, std::uint64_t key, const ImageSize& image) {
  Draws draws(key);
  // Drawn first, so that it does not depend on how often a part is drawn.
  const bool is_mirrored = draws.share() < view.mirrored;
  return {drawn_box(view, image, draws), is_mirrored};
}

void write_training_pixels(const ImageView& view, const Image& image, const DrawnView& drawn, std::span<float> pixels) {
  write_normalised(view, resized(cropped(image, drawn.box), view.size), drawn.is_mirrored, pixels);
}

void write_evaluation_pixels(const ImageView& view, const Image& image, std::span<float> pixels) {
  if (!view.evaluated_side) return write_normalised(view, resized(image, view.size), false, pixels);
  const std::int64_t side = std::max({*view.evaluated_side, view.size.height, view.size.width});
  const Image small = resized(image, with_shorter_side({image.height, image.width}, side));
  write_normalised(view, cropped(small, middle({small.height, small.width}, view.size)), false, pixels);
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace llmtrain {
namespace {

constexpr int weight_bits = 22;

// What one element of a line of the result is made of.
struct Window {
  std::int64_t begin = 0;
  std::vector<std::int32_t> weights;
};

std::vector<Window> windows_of(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0), per_reach = 1 / reach;
  std::vector<Window> windows(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(centre - reach + 0.5)));
    const auto end = std::min(from, static_cast<std::int64_t>(std::floor(centre + reach + 0.5)));
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t at = begin; at < end; ++at) {
      const double distance = std::abs((static_cast<double>(at) - centre + 0.5) * per_reach);
      weights.push_back(distance < 1 ? 1 - distance : 0);
      sum += weights.back();
    }
    Window& window = windows[static_cast<std::size_t>(i)];
    window.begin = begin;
    for (const double weight : weights) {
      const double part = sum == 0 ? weight : weight / sum;
      window.weights.push_back(static_cast<std::int32_t>(std::floor(0.5 + part * (1 << weight_bits))));
    }
  }
  return windows;
}

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp<std::int32_t>(sum >> weight_bits, 0, 255));
}

constexpr std::int32_t half = 1 << (weight_bits - 1);

// Both passes: `step` bytes lie between elements of a line, which begins at `line`.
std::uint8_t element_of(const Window& window, const std::uint8_t* line, std::size_t step) {
  std::int32_t sum = half;
  const std::uint8_t* at = line + static_cast<std::size_t>(window.begin) * step;
  for (const std::int32_t weight : window.weights) {
    sum += weight * *at;
    at += step;
  }
  return rounded(sum);
}

Image resized_along_rows(const Image& image, std::int64_t width) {
  Image result{image.height, width, {}};
  result.bytes.resize(static_cast<std::size_t>(image.height * width * image_channels));
  const std::vector<Window> windows = windows_of(image.width, width);
  std::uint8_t* into = result.bytes.data();
  for (std::int64_t y = 0; y < image.height; ++y)
    for (const Window& window : windows)
      for (std::size_t channel = 0; channel < image_channels; ++channel)
        *into++ = element_of(window, image.row(y).data() + channel, image_channels);
  return result;
}

Image resized_along_columns(const Image& image, std::int64_t height) {
  Image result{height, image.width, {}};
  const auto row = static_cast<std::size_t>(image.width * image_channels);
  result.bytes.resize(static_cast<std::size_t>(height) * row);
  std::uint8_t* into = result.bytes.data();
  for (const Window& window : windows_of(image.height, height))
    for (std::size_t place = 0; place < row; ++place) *into++ = element_of(window, image.bytes.data() + place, row);
  return result;
}

}  // namespace

Image cropped(const Image& image, const ImageBox& box) {
  Image result{box.height, box.width, {}};
  result.bytes.reserve(static_cast<std::size_t>(box.height * box.width * image_channels));
  for (std::int64_t y = 0; y < box.height; ++y) {
    const auto part = image.row(box.top + y)
                          .subspan(static_cast<std::size_t>(box.left * image_channels),
                                   static_cast<std::size_t>(box.width * image_channels));
    result.bytes.insert(result.bytes.end(), part.begin(), part.end());
  }
  return result;
}

Image resized(const Image& image, const ImageSize& size) {
  if (image.width == size.width && image.height == size.height) return image;
  if (image.width == size.width) return resized_along_columns(image, size.height);
  // The shorter of the two images between.
  if (size.width > image.width && size.height < image.height)
    return resized_along_rows(resized_along_columns(image, size.height), size.width);
  const Image wide = resized_along_rows(image, size.width);
  return wide.height == size.height ? wide : resized_along_columns(wide, size.height);
}

ImageSize with_shorter_side(const ImageSize& size, std::int64_t side) {
  if (size.height <= size.width) return {side, side * size.width / size.height};
  return {side * size.height / size.width, side};
}

}  // namespace llmtrain

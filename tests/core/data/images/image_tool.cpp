// SPDX-License-Identifier: Apache-2.0
// Shows tests in Python what is made of an image, each time by printing a height and a width and writing bytes:
//   image_tool FILE OUTPUT [HEIGHT WIDTH [TOP LEFT HEIGHT WIDTH]]  the image, in that size, or a part of it in that
//   size image_tool FILE OUTPUT evaluated SIDE HEIGHT WIDTH             what evaluations see of it, with SIDE pixels
//   along
//                                                                  the shorter side before the middle is cut out
#include <cmath>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <string_view>

#include "core/data/images/augmentation.h"
#include "core/data/images/image_file.h"
#include "core/data/images/resize.h"

namespace {

using namespace llmtrain;

Image evaluated(const Image& image, std::int64_t side, const ImageSize& size) {
  // With these numbers pixels are bytes ÷ 255.
  const ImageView view{.size = size, .mean = {0, 0, 0}, .deviation = {1, 1, 1}, .evaluated_side = side};
  const auto each = static_cast<std::size_t>(size.height * size.width);
  std::vector<float> pixels(each * image_channels);
  write_evaluation_pixels(view, image, pixels);
  Image result{size.height, size.width, std::vector<std::uint8_t>(pixels.size())};
  for (std::size_t i = 0; i < pixels.size(); ++i)
    result.bytes[i % each * image_channels + i / each] = static_cast<std::uint8_t>(std::lround(255 * pixels[i]));
  return result;
}

}  // namespace

int main(int count, char** words) {
  const auto number = [&](int place) { return static_cast<std::int64_t>(std::atoll(words[place])); };
  try {
    Image image = read_image(words[1]);
    if (count > 6 && std::string_view(words[3]) == "evaluated") {
      image = evaluated(image, number(4), {number(5), number(6)});
    } else {
      if (count > 5) image = cropped(image, {number(5), number(6), number(7), number(8)});
      if (count > 3) image = resized(image, {number(3), number(4)});
    }
    std::cout << image.height << " " << image.width << "\n";
    std::ofstream(words[2], std::ios::binary)
        .write(reinterpret_cast<const char*>(image.bytes.data()), static_cast<std::streamsize>(image.bytes.size()));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

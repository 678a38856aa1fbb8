// SPDX-License-Identifier: Apache-2.0
// Shows tests in Python what is made of an image: image_tool FILE OUTPUT prints its height and width and writes its
// bytes; with HEIGHT WIDTH [TOP LEFT HEIGHT WIDTH] behind these those of the image or of a part of it in that size.
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>

#include "core/data/images/image_file.h"
#include "core/data/images/resize.h"

int main(int count, char** words) {
  using namespace llmtrain;
  const auto number = [&](int place) { return static_cast<std::int64_t>(std::atoll(words[place])); };
  try {
    Image image = read_image(words[1]);
    if (count > 5) image = cropped(image, {number(5), number(6), number(7), number(8)});
    if (count > 3) image = resized(image, {number(3), number(4)});
    std::cout << image.height << " " << image.width << "\n";
    std::ofstream(words[2], std::ios::binary)
        .write(reinterpret_cast<const char*>(image.bytes.data()), static_cast<std::streamsize>(image.bytes.size()));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

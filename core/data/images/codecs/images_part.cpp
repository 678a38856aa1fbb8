// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <exception>

#include "core/data/images/codecs/codecs.h"
#include "core/data/images/image_decoder.h"

namespace llmtrain {
namespace {

template <std::size_t size>
bool begins_with(std::span<const std::byte> bytes, const std::array<unsigned char, size>& signature) {
  return bytes.size() >= size &&
         std::equal(signature.begin(), signature.end(), bytes.begin(),
                    [](unsigned char expected, std::byte byte) { return std::byte{expected} == byte; });
}

constexpr std::array<unsigned char, 3> jpeg_signature{0xFF, 0xD8, 0xFF};
constexpr std::array<unsigned char, 8> png_signature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

}  // namespace

bool make_room(std::int64_t height, std::int64_t width, Image& image, std::string& reason) {
  if (height < 1 || width < 1 || height > most_pixels / width) {
    reason = "an image of " + std::to_string(width) + "×" + std::to_string(height) + " pixels; it has from 1 to " +
             std::to_string(most_pixels);
    return false;
  }
  image.height = height;
  image.width = width;
  image.bytes.resize(static_cast<std::size_t>(height * width * image_channels));
  return true;
}

}  // namespace llmtrain

extern "C" __attribute__((visibility("default"))) bool llmtrain_decode_image(std::span<const std::byte> bytes,
                                                                             llmtrain::Image& image,
                                                                             std::string& reason) {
  using namespace llmtrain;
  try {
    if (begins_with(bytes, jpeg_signature)) return decode_jpeg(bytes, image, reason);
    if (begins_with(bytes, png_signature)) return decode_png(bytes, image, reason);
    reason = "it is neither a JPEG nor a PNG image";
  } catch (const std::exception& error) {
    reason = error.what();
  }
  return false;
}

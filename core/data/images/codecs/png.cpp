// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include <algorithm>
#include <csetjmp>

#include "core/data/images/codecs/codecs.h"

namespace llmtrain {
namespace {

// libpng leaves a decoder by a jump, over no object with a destructor: all that is made lies in here.
struct PngDecoder {
  png_struct* png = nullptr;
  png_info* info = nullptr;
  std::span<const std::byte> left;  // of the file
  std::vector<png_byte*> rows;
  char message[200] = "";
};

[[noreturn]] void fail(png_struct* png, const char* message) {
  auto& decoder = *static_cast<PngDecoder*>(png_get_error_ptr(png));
  const std::string_view text(message);
  const std::size_t length = text.copy(decoder.message, sizeof(decoder.message) - 1);
  decoder.message[length] = '\0';
  png_longjmp(png, 1);
}

void warn(png_struct* /*png*/, const char* /*message*/) {}

void read_bytes(png_struct* png, png_byte* into, std::size_t count) {
  auto& decoder = *static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (decoder.left.size() < count) png_error(png, "the file ends early");
  std::ranges::copy(decoder.left.first(count), reinterpret_cast<std::byte*>(into));
  decoder.left = decoder.left.subspan(count);
}

// Eight bits each of red, green and blue, whatever the file has.
void ask_for_colours(const PngDecoder& decoder) {
  png_set_strip_16(decoder.png);
  png_set_palette_to_rgb(decoder.png);
  png_set_expand_gray_1_2_4_to_8(decoder.png);
  png_set_gray_to_rgb(decoder.png);
  png_set_strip_alpha(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
}

bool read_rows(PngDecoder& decoder, Image& image, std::string& reason) {
  png_read_info(decoder.png, decoder.info);
  const std::int64_t height = png_get_image_height(decoder.png, decoder.info);
  if (!make_room(height, png_get_image_width(decoder.png, decoder.info), image, reason)) return false;
  ask_for_colours(decoder);
  const auto row_bytes = static_cast<std::size_t>(image.width * image_channels);
  if (png_get_rowbytes(decoder.png, decoder.info) != row_bytes) png_error(decoder.png, "it has other channels");
  for (std::int64_t row = 0; row < height; ++row)
    decoder.rows.push_back(image.bytes.data() + static_cast<std::size_t>(row) * row_bytes);
  png_read_image(decoder.png, decoder.rows.data());
  png_read_end(decoder.png, nullptr);
  return true;
}

bool decode(PngDecoder& decoder, Image& image, std::string& reason) {
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, fail, warn);
  if (decoder.png == nullptr) return false;
  // NOLINTNEXTLINE(cert-err52-cpp): libpng is written in C
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) png_error(decoder.png, "there is no memory for it");
  png_set_read_fn(decoder.png, &decoder, read_bytes);
  return read_rows(decoder, image, reason);
}

}  // namespace

bool decode_png(std::span<const std::byte> bytes, Image& image, std::string& reason) {
  PngDecoder decoder{.left = bytes, .rows = {}};
  const bool is_whole = decode(decoder, image, reason);
  if (!is_whole && reason.empty()) reason = std::string("a damaged PNG image: ") + decoder.message;
  png_destroy_read_struct(&decoder.png, &decoder.info, nullptr);
  return is_whole;
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#include <csetjmp>
#include <cstdio>
// libjpeg's headers need FILE.
#include <jerror.h>
#include <jpeglib.h>

#include "core/data/images/codecs/codecs.h"

namespace llmtrain {
namespace {

// libjpeg leaves a decoder by a jump, over no object with a destructor: all that is made lies in here.
struct JpegDecoder {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  std::jmp_buf failed{};
  char message[JMSG_LENGTH_MAX] = "";
  std::vector<JSAMPLE> inks;  // a row of cyan, magenta, yellow and black
};

JpegDecoder& decoder_of(j_common_ptr jpeg) { return *static_cast<JpegDecoder*>(jpeg->client_data); }

[[noreturn]] void fail(j_common_ptr jpeg) {
  jpeg->err->format_message(jpeg, decoder_of(jpeg).message);
  std::longjmp(decoder_of(jpeg).failed, 1);
}

// libjpeg only warns of what is odd in a file, and shows gray where its end is missing. That alone is refused.
void warn(j_common_ptr jpeg, int level) {
  if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF) fail(jpeg);
}

// The product of two parts of 255, rounded.
int product(int left, int right) {
  const int sum = left * right + 128;
  return ((sum >> 8) + sum) >> 8;
}

// Ink on white; Adobe's files say how much of each is not there.
void write_inks(const JpegDecoder& decoder, JSAMPLE* into) {
  const bool is_inverted = decoder.jpeg.saw_Adobe_marker != 0;
  for (std::size_t x = 0; x < decoder.jpeg.output_width; ++x) {
    const auto without = [&](std::size_t ink) {
      const int stored = decoder.inks[4 * x + ink];
      return is_inverted ? stored : 255 - stored;
    };
    for (std::size_t colour = 0; colour < 3; ++colour)
      into[3 * x + colour] = static_cast<JSAMPLE>(without(3) - product(255 - without(colour), without(3)));
  }
}

bool read_rows(JpegDecoder& decoder, Image& image, std::string& reason) {
  jpeg_decompress_struct& jpeg = decoder.jpeg;
  const bool has_inks = jpeg.num_components == 4;
  jpeg.out_color_space = has_inks ? JCS_CMYK : JCS_RGB;
  jpeg_calc_output_dimensions(&jpeg);
  if (!make_room(jpeg.output_height, jpeg.output_width, image, reason)) return false;
  if (has_inks) decoder.inks.resize(std::size_t{4} * jpeg.output_width);
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPLE* const into = image.bytes.data() + std::size_t{3} * jpeg.output_width * jpeg.output_scanline;
    JSAMPLE* row = has_inks ? decoder.inks.data() : into;
    if (jpeg_read_scanlines(&jpeg, &row, 1) == 1 && has_inks) write_inks(decoder, into);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

bool decode(JpegDecoder& decoder, std::span<const std::byte> bytes, Image& image, std::string& reason) {
  jpeg_decompress_struct& jpeg = decoder.jpeg;
  jpeg.err = jpeg_std_error(&decoder.errors);
  jpeg.client_data = &decoder;
  decoder.errors.error_exit = fail;
  decoder.errors.emit_message = warn;
  // NOLINTNEXTLINE(cert-err52-cpp): libjpeg is written in C
  if (setjmp(decoder.failed) != 0) return false;
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  return read_rows(decoder, image, reason);
}

}  // namespace

bool decode_jpeg(std::span<const std::byte> bytes, Image& image, std::string& reason) {
  JpegDecoder decoder;
  const bool is_whole = decode(decoder, bytes, image, reason);
  if (!is_whole && reason.empty()) reason = std::string("a damaged JPEG image: ") + decoder.message;
  jpeg_destroy_decompress(&decoder.jpeg);
  return is_whole;
}

}  // namespace llmtrain

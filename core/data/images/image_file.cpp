// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_file.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/data/images/image_decoder.h"

namespace llmtrain {
namespace {

constexpr const char* part_file = "libllmtrain_images.so";

DecodeImage* find_decoder(const std::string& name) {
  // By its bare name, so that it is found through the run path of the library or program that contains this code.
  void* const library = ::dlopen(part_file, RTLD_NOW | RTLD_LOCAL);
  void* const entry = library == nullptr ? nullptr : ::dlsym(library, "llmtrain_decode_image");
  if (entry != nullptr) return reinterpret_cast<DecodeImage*>(entry);
  const char* const reason = ::dlerror();
  throw Error(ExitCode::missing_input,
              name + ": images are read by " + part_file + ", which cannot be loaded (" +
                  (reason != nullptr ? reason : "it has another version") +
                  "); run scripts/setup and scripts/build where llmtrain's sources are (they install libjpeg-turbo and "
                  "libpng)");
}

}  // namespace

bool is_image_name(const std::filesystem::path& file) {
  std::string extension = file.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  constexpr std::array<std::string_view, 3> known{".jpg", ".jpeg", ".png"};
  return std::ranges::find(known, extension) != known.end();
}

Image decode_image(std::span<const std::byte> bytes, const std::string& name) {
  static DecodeImage* const decode = find_decoder(name);
  Image image;
  std::string reason;
  if (!decode(bytes, image, reason)) throw Error(ExitCode::bad_data, name + ": " + reason);
  return image;
}

Image read_image(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  return decode_image(mapped.bytes(), file.string());
}

}  // namespace llmtrain

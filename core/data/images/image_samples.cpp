// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_samples.h"

#include <stdexcept>
#include <utility>

#include "core/data/images/image_file.h"
#include "core/data/mix_bits.h"

namespace llmtrain {

ImageSamples::ImageSamples(ImageFolder folder, const ImageView& view, std::int64_t rows, std::uint64_t key)
    : folder_(std::move(folder)),
      view_(view),
      key_(key),
      sequence_{.length = rows},
      fields_{{BatchField::pixels, ElementType::float32, {image_channels, view.size.height, view.size.width}, {}},
              {BatchField::label, ElementType::int64, {}, {}}} {}

std::size_t ImageSamples::checked(std::int64_t number, const FieldMemory& into) const {
  if (number < 0 || number >= samples() || into.first_row != 0)
    throw std::invalid_argument("images are whole samples with numbers from 0");
  return static_cast<std::size_t>(number);
}

void ImageSamples::read_label(std::size_t place, const FieldMemory& into) const {
  const auto label = into.values<std::int64_t>(BatchField::label);
  if (label.size() > 1) throw std::invalid_argument("an image has one label");
  if (!label.empty()) label[0] = folder_.labels[place];
}

void ImageSamples::read(std::int64_t number, const FieldMemory& into) const {
  const std::size_t place = checked(number, into);
  read_label(place, into);
  const auto pixels = into.values<float>(BatchField::pixels);
  if (!pixels.empty()) write_evaluation_pixels(view_, read_image(folder_.paths[place]), pixels);
}

void ImageSamples::read_drawn(std::int64_t number, std::int64_t draw, const FieldMemory& into) const {
  if (!view_.is_drawn) return read(number, into);
  const std::size_t place = checked(number, into);
  read_label(place, into);
  const auto pixels = into.values<float>(BatchField::pixels);
  if (pixels.empty()) return;
  const Image image = read_image(folder_.paths[place]);
  const std::uint64_t key = mix_bits(key_) + static_cast<std::uint64_t>(draw);
  write_training_pixels(view_, image, drawn_view(view_, key, {image.height, image.width}), pixels);
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/data/images/augmentation.h"
#include "core/data/images/image_folder.h"
#include "core/data/samples/file_samples.h"

namespace llmtrain {

// Images and their classes: the fields `pixels`, fp32 [channels, height, width], and `label`, int64 of a whole sample,
// which weighs 1. Files are read and decoded each time.
class ImageSamples final : public FileSamples {
 public:
  // `folder` has a file at least. The views of training images follow from `key`. A model makes a sequence of `rows`
  // rows of each image.
  ImageSamples(ImageFolder folder, const ImageView& view, std::int64_t rows, std::uint64_t key);

  const ImageFolder& folder() const { return folder_; }

  std::span<const SampleField> fields() const override { return fields_; }
  std::span<const SampleSequence> sequences() const override { return {&sequence_, 1}; }
  std::int64_t samples() const override { return static_cast<std::int64_t>(folder_.paths.size()); }
  // In the view of evaluations.
  void read(std::int64_t number, const FieldMemory& into) const override;
  // In a view of training that is another for each draw, where the view draws.
  void read_drawn(std::int64_t number, std::int64_t draw, const FieldMemory& into) const override;
  double weight(std::size_t /*term*/, std::int64_t /*first*/, std::int64_t count) const override {
    return static_cast<double>(count);
  }
  std::optional<double> weight_of_each(std::size_t /*term*/) const override { return 1; }
  const std::vector<std::filesystem::path>& paths() const override { return folder_.paths; }
  // The rows that a model makes of all images.
  std::int64_t tokens() const override { return samples() * sequence_.length; }

 private:
  std::size_t checked(std::int64_t number, const FieldMemory& into) const;
  void read_label(std::size_t place, const FieldMemory& into) const;

  ImageFolder folder_;
  ImageView view_;
  std::uint64_t key_;
  SampleSequence sequence_;
  std::vector<SampleField> fields_;
};

}  // namespace llmtrain

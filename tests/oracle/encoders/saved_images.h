// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/checkpoint/safetensors.h"
#include "core/data/samples/sample_source.h"

namespace llmtrain::test {

// Images and their classes from a safetensors file: pixels, fp32 [samples, channels, height, width], and label, int64
// [samples]. A model makes a sequence of `rows` rows of each.
class SavedImages final : public SampleSource {
 public:
  SavedImages(const std::string& path, std::int64_t rows)
      : file_(path), pixels_(*file_.find("pixels")), sequence_{.length = rows} {
    fields_ = {
        {BatchField::pixels, ElementType::float32, {pixels_.shape.begin() + 1, pixels_.shape.end()}, std::nullopt},
        {BatchField::label, ElementType::int64, {}, std::nullopt}};
  }

  std::span<const SampleField> fields() const override { return fields_; }
  std::span<const SampleSequence> sequences() const override { return {&sequence_, 1}; }
  std::int64_t samples() const override { return pixels_.shape.front(); }
  void read(std::int64_t number, const FieldMemory& into) const override {
    copy(pixels_, number, into.fields[index_of(BatchField::pixels)]);
    copy(*file_.find("label"), number, into.fields[index_of(BatchField::label)]);
  }
  double weight(std::size_t, std::int64_t, std::int64_t count) const override { return static_cast<double>(count); }

 private:
  void copy(const SafetensorsEntry& entry, std::int64_t number, std::span<std::byte> into) const {
    if (!into.empty())
      std::memcpy(into.data(), file_.bytes(entry).data() + static_cast<std::size_t>(number) * into.size(), into.size());
  }

  SafetensorsFile file_;
  const SafetensorsEntry& pixels_;
  SampleSequence sequence_;
  std::vector<SampleField> fields_;
};

}  // namespace llmtrain::test

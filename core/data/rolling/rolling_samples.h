// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/data/rolling/rolling_texts.h"
#include "core/data/samples/sample_source.h"

namespace llmtrain {

// The windows of texts, packed into samples of `length` rows, in which each attends to itself alone and the rows that
// score count. Windows are no longer than a sample. The texts outlive this.
class RollingSamples final : public SampleSource {
 public:
  RollingSamples(const RollingTexts& texts, std::int64_t length);

  std::span<const SampleField> fields() const override { return fields_; }
  std::span<const SampleSequence> sequences() const override { return {&sequence_, 1}; }
  std::int64_t samples() const override { return static_cast<std::int64_t>(packed_.size()); }
  void read(std::int64_t number, const FieldMemory& into) const override;
  double weight(std::size_t term, std::int64_t first, std::int64_t count) const override;

 private:
  const RollingTexts& texts_;
  std::vector<std::vector<std::int64_t>> packed_;  // windows, by sample
  SampleSequence sequence_;
  std::vector<SampleField> fields_;
};

}  // namespace llmtrain

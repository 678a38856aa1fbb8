// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/data/samples/file_samples.h"
#include "core/data/spans/span_texts.h"

namespace llmtrain {

// Questions with windows of texts, of which each fills a sequence with padding, a document of its own: token_ids,
// token_types and `span`, the rows in which the answer starts and ends. Both count, so that a sample weighs 2.
class SpanSamples final : public FileSamples {
 public:
  // `texts` have been opened with this length as their longest.
  SpanSamples(std::shared_ptr<const SpanTexts> texts, std::int64_t sequence_length);

  const SpanTexts& texts() const { return *texts_; }

  std::span<const SampleField> fields() const override { return fields_; }
  std::span<const SampleSequence> sequences() const override { return {&sequence_, 1}; }
  std::int64_t samples() const override { return texts_->count(); }
  void read(std::int64_t number, const FieldMemory& into) const override;
  double weight(std::size_t, std::int64_t, std::int64_t count) const override { return 2 * static_cast<double>(count); }
  const std::vector<std::filesystem::path>& paths() const override { return texts_->paths(); }
  std::int64_t tokens() const override { return texts_->tokens(); }
  std::vector<DocumentRows> documents_of(std::int64_t sample) const override {
    return {{0, std::ssize(texts_->window(sample).ids)}};
  }
  std::optional<double> weight_of_each(std::size_t) const override { return 2; }

 private:
  std::shared_ptr<const SpanTexts> texts_;
  SampleSequence sequence_;
  std::vector<SampleField> fields_;
};

}  // namespace llmtrain

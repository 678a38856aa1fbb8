// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/data/examples/labelled_texts.h"
#include "core/data/samples/file_samples.h"

namespace llmtrain {

// Texts with labels, of which each fills a sequence with padding, a document of its own: token_ids and token_types, and
// `label` of the text, which weighs 1; or of words `targets` in the rows that count, those where a word begins.
class LabelledTextSamples final : public FileSamples {
 public:
  // `texts` have been opened with this length as their longest.
  LabelledTextSamples(std::shared_ptr<const LabelledTexts> texts, std::int64_t sequence_length);

  const LabelledTexts& texts() const { return *texts_; }

  std::span<const SampleField> fields() const override { return fields_; }
  std::span<const SampleSequence> sequences() const override { return {&sequence_, 1}; }
  std::int64_t samples() const override { return texts_->count(); }
  void read(std::int64_t number, const FieldMemory& into) const override;
  double weight(std::size_t term, std::int64_t first, std::int64_t count) const override;
  const std::vector<std::filesystem::path>& paths() const override { return texts_->paths(); }
  std::int64_t tokens() const override { return texts_->tokens(); }
  std::vector<DocumentRows> documents_of(std::int64_t sample) const override {
    return {{0, std::ssize(texts_->example(sample).ids)}};
  }
  std::optional<double> weight_of_each(std::size_t) const override {
    return texts_->part() == LabelledPart::text ? std::optional<double>(1) : std::nullopt;
  }

 private:
  void check(std::int64_t number, const FieldMemory& into) const;

  std::shared_ptr<const LabelledTexts> texts_;
  SampleSequence sequence_;
  std::vector<SampleField> fields_;
};

}  // namespace llmtrain

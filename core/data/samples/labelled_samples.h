// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/data/samples/file_samples.h"
#include "core/data/samples/labelled_documents.h"

namespace llmtrain {

// Conversations for fine-tuning, of whose tokens some count in the loss: the others have 0 as target and no mark in
// counted_rows.
class LabelledSamples final : public FileSamples {
 public:
  // `documents` have been opened with this length, and are packed or not.
  LabelledSamples(std::shared_ptr<const LabelledDocuments> documents, bool are_packed, std::int64_t sequence_length);

  const LabelledDocuments& documents() const { return *documents_; }

  std::span<const SampleField> fields() const override { return fields_; }
  std::span<const SampleSequence> sequences() const override { return {&sequence_, 1}; }
  std::int64_t samples() const override { return documents_->samples(); }
  void read(std::int64_t number, const FieldMemory& into) const override;
  double weight(std::size_t term, std::int64_t first, std::int64_t count) const override;
  const std::vector<std::filesystem::path>& paths() const override { return documents_->paths(); }
  std::int64_t tokens() const override { return documents_->tokens(); }
  std::vector<DocumentRows> documents_of(std::int64_t sample) const override {
    return documents_->documents_of(sample);
  }
  std::optional<double> weight_of_each(std::size_t) const override { return std::nullopt; }

 private:
  std::shared_ptr<const LabelledDocuments> documents_;
  SampleSequence sequence_;
  std::vector<SampleField> fields_;
};

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/data/examples/text_examples.h"
#include "core/data/samples/file_samples.h"

namespace llmtrain {

// Marks where a text of so many tokens and the padding behind it begin, in the starts of a sample's documents; nothing
// where these are not asked for.
void mark_padded(std::span<std::int64_t> starts, std::size_t tokens);

// Texts of which each fills a sequence with padding, a document of its own. They have token ids alone; a sample weighs
// its number of tokens.
class PaddedTexts final : public FileSamples {
 public:
  // `texts` have been opened with this length as their longest.
  PaddedTexts(std::shared_ptr<const TextExamples> texts, std::int64_t sequence_length);

  const TextExamples& texts() const { return *texts_; }

  std::span<const SampleField> fields() const override { return {&field_, 1}; }
  std::span<const SampleSequence> sequences() const override { return {&sequence_, 1}; }
  std::int64_t samples() const override { return texts_->count(); }
  void read(std::int64_t number, const FieldMemory& into) const override;
  double weight(std::size_t term, std::int64_t first, std::int64_t count) const override;
  const std::vector<std::filesystem::path>& paths() const override { return texts_->paths(); }
  std::int64_t tokens() const override { return texts_->tokens(); }
  std::vector<DocumentRows> documents_of(std::int64_t sample) const override {
    return {{0, std::ssize(texts_->ids(sample))}};
  }
  std::optional<double> weight_of_each(std::size_t) const override { return std::nullopt; }

 private:
  std::shared_ptr<const TextExamples> texts_;
  SampleSequence sequence_;
  SampleField field_;
};

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/data/masking/masking_vocabulary.h"
#include "core/data/samples/file_samples.h"

namespace llmtrain {

// Texts some of whose tokens are hidden: token_ids are what the model sees, targets the tokens themselves, and the rows
// that are to be predicted count. What a sample's rows become is a pure function of a key, and of the number of the
// sample or the draw.
class MaskedSamples final : public FileSamples {
 public:
  // `texts` have samples of one sequence with token ids. The first rows of a sample are text, as many as it weighs in
  // the first loss term, and the rest is padding.
  MaskedSamples(std::unique_ptr<FileSamples> texts, std::shared_ptr<const Masking> masking, std::uint64_t key);

  std::span<const SampleField> fields() const override { return fields_; }
  std::span<const SampleSequence> sequences() const override { return {&sequence_, 1}; }
  std::int64_t samples() const override { return texts_->samples(); }
  // Whole samples alone. Numbers are those of `texts`.
  void read(std::int64_t number, const FieldMemory& into) const override { read_drawn(number, number, into); }
  void read_drawn(std::int64_t number, std::int64_t draw, const FieldMemory& into) const override;
  double weight(std::size_t term, std::int64_t first, std::int64_t count) const override;
  const std::vector<std::filesystem::path>& paths() const override { return texts_->paths(); }
  std::int64_t tokens() const override { return texts_->tokens(); }
  std::vector<DocumentRows> documents_of(std::int64_t sample) const override { return texts_->documents_of(sample); }
  std::optional<double> weight_of_each(std::size_t term) const override;
  bool restores_tokens() const override { return true; }
  const FileSamples& origin() const override { return *texts_; }

 private:
  std::int64_t counted(double length) const;

  std::unique_ptr<FileSamples> texts_;
  std::shared_ptr<const Masking> masking_;
  std::uint64_t key_;
  SampleSequence sequence_;
  std::vector<SampleField> fields_;
};

}  // namespace llmtrain

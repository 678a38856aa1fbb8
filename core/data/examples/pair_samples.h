// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/data/examples/pair_rows.h"
#include "core/data/examples/pair_texts.h"
#include "core/data/samples/file_samples.h"

namespace llmtrain {

// Sources and their targets, as samples of two sequences (core/data/examples/pair_rows.h).
class PairSamples final : public FileSamples {
 public:
  // `texts` have been opened with one token less than these lengths.
  PairSamples(std::shared_ptr<const PairTexts> texts, std::int64_t source_length, std::int64_t target_length);

  const PairTexts& texts() const { return *texts_; }

  std::span<const SampleField> fields() const override { return rows_.fields(); }
  std::span<const SampleSequence> sequences() const override { return rows_.sequences(); }
  std::int64_t samples() const override { return texts_->count(); }
  void read(std::int64_t number, const FieldMemory& into) const override;
  double weight(std::size_t term, std::int64_t first, std::int64_t count) const override;
  const std::vector<std::filesystem::path>& paths() const override { return texts_->paths(); }
  std::int64_t tokens() const override { return texts_->tokens(); }
  // By sequence.
  std::vector<DocumentRows> documents_of(std::int64_t sample) const override;
  std::optional<double> weight_of_each(std::size_t) const override { return std::nullopt; }

 private:
  std::shared_ptr<const PairTexts> texts_;
  PairRows rows_;
};

}  // namespace llmtrain

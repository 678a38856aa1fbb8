// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/data/examples/pair_texts.h"
#include "core/data/samples/file_samples.h"

namespace llmtrain {

// A source and its target are a sample of two sequences, the encoder's and the decoder's, each filled with padding:
//   source_ids    the source
//   token_ids     what the decoder reads, by teacher forcing: the start, and then the target but for its last token;
//                 in the rows that count what shift_tokens_right() of transformers makes of the targets
//   targets       the target's tokens, in the rows that count
// Padding is a document of its own in both sequences: at least one row of each is padding, so that attention from one
// sequence to the other, which pairs their documents in order, meets as many in both.
class PairSamples final : public FileSamples {
 public:
  // `texts` have been opened with one token less than these lengths.
  PairSamples(std::shared_ptr<const PairTexts> texts, std::int64_t source_length, std::int64_t target_length);

  const PairTexts& texts() const { return *texts_; }

  std::span<const SampleField> fields() const override { return fields_; }
  // The source's, and the target's.
  std::span<const SampleSequence> sequences() const override { return sequences_; }
  std::int64_t samples() const override { return texts_->count(); }
  void read(std::int64_t number, const FieldMemory& into) const override;
  double weight(std::size_t term, std::int64_t first, std::int64_t count) const override;
  const std::vector<std::filesystem::path>& paths() const override { return texts_->paths(); }
  std::int64_t tokens() const override { return texts_->tokens(); }
  // By sequence.
  std::vector<DocumentRows> documents_of(std::int64_t sample) const override;
  std::optional<double> weight_of_each(std::size_t) const override { return std::nullopt; }

 private:
  void check(std::int64_t number, const FieldMemory& into) const;

  std::shared_ptr<const PairTexts> texts_;
  std::vector<SampleSequence> sequences_;
  std::vector<SampleField> fields_;
};

}  // namespace llmtrain

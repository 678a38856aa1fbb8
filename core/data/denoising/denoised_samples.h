// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/data/denoising/denoising.h"
#include "core/data/examples/pair_rows.h"
#include "core/data/samples/file_samples.h"

namespace llmtrain {

// Texts that are damaged, as sources of pairs (core/data/examples/pair_rows.h), and what restores them as targets. How
// a sample is damaged is a pure function of a key, and of the number of the sample or the draw.
class DenoisedSamples final : public FileSamples {
 public:
  // `texts` have samples of one sequence with token ids: of single texts each with the tokenizer's marks around it and
  // padding behind, else each filled, without marks around it, and as long as Denoising::longest.
  DenoisedSamples(std::unique_ptr<FileSamples> texts, std::shared_ptr<const Denoising> denoising, std::uint64_t key);

  std::span<const SampleField> fields() const override { return rows_.fields(); }
  std::span<const SampleSequence> sequences() const override { return rows_.sequences(); }
  std::int64_t samples() const override { return texts_->samples(); }
  void read(std::int64_t number, const FieldMemory& into) const override { read_drawn(number, number, into); }
  void read_drawn(std::int64_t number, std::int64_t draw, const FieldMemory& into) const override;
  double weight(std::size_t term, std::int64_t first, std::int64_t count) const override;
  const std::vector<std::filesystem::path>& paths() const override { return texts_->paths(); }
  std::int64_t tokens() const override { return texts_->tokens(); }
  std::optional<double> weight_of_each(std::size_t term) const override;
  const FileSamples& origin() const override { return *texts_; }

 private:
  std::int64_t length(std::int64_t number) const;
  std::int64_t target_tokens(std::int64_t length) const;
  DamagedText damaged(std::span<const std::int64_t> text, std::int64_t draw) const;

  std::unique_ptr<FileSamples> texts_;
  std::shared_ptr<const Denoising> denoising_;
  std::uint64_t key_;
  PairRows rows_;
};

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/samples/file_samples.h"
#include "core/data/token_source.h"

namespace llmtrain {

inline constexpr std::int64_t no_token = -1;

// What samples of tokens are.
struct TokenSampleFormat {
  std::int64_t sequence_length = 0;
  std::int64_t vocab_size = 0;
  // The token that ends a document where attention stays within documents, or no_token: all files have indexes.
  std::optional<std::int64_t> document_end{};
};

// Sequences of consecutive tokens, each with the token that follows as its target. Samples do not overlap: the last
// target of one is the first input of the next. As in Megatron-LM, the target of a document's last token is the next
// document's first.
class TokenSamples final : public FileSamples {
 public:
  // `path` names the source in messages. Throws Error(bad_data) where that is shorter than a sample, or nothing ends
  // its documents.
  TokenSamples(TokenSource source, const TokenSampleFormat& format, const std::string& path);

  const TokenSource& source() const { return source_; }

  std::span<const SampleField> fields() const override { return fields_; }
  std::span<const SampleSequence> sequences() const override { return {&sequence_, 1}; }
  std::int64_t samples() const override;
  // Throws Error(bad_data), with the file and the token's number in it, for an id that is not below the vocabulary: a
  // file has changed, and on a GPU nothing looks at ids.
  void read(std::int64_t number, const FieldMemory& into) const override;
  std::vector<DocumentRows> documents_of(std::int64_t sample) const override;
  double weight(std::size_t term, std::int64_t first, std::int64_t count) const override;
  const std::vector<std::filesystem::path>& paths() const override { return source_.paths(); }
  std::int64_t tokens() const override { return source_.tokens(); }
  std::optional<double> weight_of_each(std::size_t term) const override;

 private:
  void read_valid(std::int64_t first, std::span<std::int64_t> tokens) const;

  TokenSource source_;
  TokenSampleFormat format_;
  SampleSequence sequence_;
  std::vector<SampleField> fields_;
};

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/data/samples/sample_source.h"

namespace llmtrain {

// A source and its target as a sample of two sequences, the encoder's and the decoder's, each filled with padding:
//   source_ids    the source
//   token_ids     what the decoder reads, by teacher forcing: the start, and then the target but for its last token;
//                 in the rows that count what shift_tokens_right() of transformers makes of the targets
//   targets       the target's tokens, in the rows that count
// Padding is a document of its own in both sequences: at least one row of each is padding, so that attention from one
// sequence to the other, which pairs their documents in order, meets as many in both.
class PairRows {
 public:
  struct Format {
    std::int64_t source_length = 0, target_length = 0;
    std::int64_t padding = 0, decoder_start = 0;  // ids
  };
  explicit PairRows(const Format& format);

  std::span<const SampleField> fields() const { return fields_; }
  // The source's, and the target's.
  std::span<const SampleSequence> sequences() const { return sequences_; }

  // Throws std::invalid_argument for memory of another size.
  void check(const FieldMemory& into) const;
  // Both are shorter than their sequences. The memory has been checked.
  template <class Id>
  void write(std::span<const Id> source, std::span<const Id> target, const FieldMemory& into) const;
  void write(const std::vector<std::int64_t>& source, const std::vector<std::int64_t>& target,
             const FieldMemory& into) const {
    write(std::span(source), std::span(target), into);
  }

 private:
  Format format_;
  std::vector<SampleSequence> sequences_;
  std::vector<SampleField> fields_;
};

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/attention/document_pieces.h"
#include "kernels/sequence_part.h"

namespace llmtrain {

// How rows of tokens form sequences, which lie back to back. What ranks share of them is said by `part`.
struct Sequences {
  std::int64_t count = 0;
  std::int64_t length = 0;       // tokens of each on this rank
  kernels::SequencePart part{};  // which tokens these are, where ranks share the sequences
  // Where several documents share a sequence: the documents, which cover all rows of the whole sequences in order, and
  // the position of each row at hand in its document (int64 [rows]). Attention stays within them; padding is one, too.
  // Empty and undefined: a sequence is one document with the padding at its end, which no row before it looks at.
  std::vector<kernels::PositionRun> documents{};
  at::Tensor positions{};
  // What a GPU's attention reads of them, once for all layers: of whole sequences kernels::document_starts(), else
  // kernels::document_pieces().
  at::Tensor document_starts{};
  std::shared_ptr<const kernels::DocumentPieces> document_pieces{};

  std::int64_t rows() const { return count * length; }                 // on this rank
  std::int64_t whole_length() const { return part.whole_of(length); }  // of each on all ranks that share it
  std::int64_t whole_rows() const { return count * whole_length(); }
};

}  // namespace llmtrain

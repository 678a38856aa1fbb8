// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sequence_part.h"

namespace llmtrain::kernels {

// Documents of whose queries a part is at hand, cut for one call of a GPU's kernel, causal, with cumulative lengths: a
// piece is the queries of a document that follow each other here, and the document's keys up to the last of them.
// Pieces are in the order of the queries, and together have all of them. Keys lie in several pieces where a part has
// several runs of positions, so that they are gathered. All tensors are on the GPU.
struct DocumentPieces {
  // Rows that are added to others, none of them twice.
  struct Additions {
    at::Tensor from, to;  // int64: rows of all pieces' keys, and of the sequences' keys, [B·S, …]
  };

  at::Tensor query_starts, key_starts;  // int32 [pieces + 1]: where pieces begin, and the end of the last
  std::int64_t most_queries = 0;        // of a piece
  std::int64_t most_keys = 0;
  at::Tensor key_rows;               // int64 [keys of all pieces]: rows of the sequences' keys
  std::vector<Additions> additions;  // by run of positions, whose pieces are of different documents
};

// The documents cover the rows of all whole sequences in order, and this rank has `tokens` of each sequence. The host
// does not wait: the device's stream takes what it has made from pinned memory.
DocumentPieces document_pieces(std::span<const PositionRun> documents, const SequencePart& part, std::int64_t tokens,
                               const at::Device& device);

// The keys of all pieces, [1, …, kv_heads, D], of the sequences' [B, S, kv_heads, D]; or values.
at::Tensor keys_of(const DocumentPieces& pieces, const at::Tensor& keys);

// Gradients of the sequences' keys, shaped as `like`, from those of all pieces' keys. Summed in fp32, in the order of
// the runs, and rounded once, so that they repeat bitwise. Those of keys that no query at hand sees are zero.
at::Tensor sum_key_gradients(const DocumentPieces& pieces, const at::Tensor& gradients, const at::Tensor& like);

}  // namespace llmtrain::kernels

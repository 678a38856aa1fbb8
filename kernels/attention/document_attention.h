// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kernels/attention/attention.h"
#include "kernels/sequence_part.h"

namespace llmtrain::kernels {

// Causal self-attention within documents that share sequences: the rows of all whole sequences, [B·S, …], count as one
// list, of which each document is a run, and a query sees the keys of its own document alone. The work is that of the
// documents' lengths, not of the sequences'.
struct DocumentSetting {
  AttentionMethod method = AttentionMethod::flash;
  std::span<const PositionRun> documents;  // they cover all rows in order; none reaches over the end of a sequence
  const SequencePart& queries;             // the positions of the queries in their sequences
  at::Tensor starts{};                     // document_starts(); undefined: made here
};

// Where the documents begin, and the end of the last: int32 [documents + 1], on the device, whose kernels read it
// there. Once per micro-batch is enough. Undefined on a CPU, which has no use for it. The device's stream takes it from
// pinned memory: the host does not wait.
at::Tensor document_starts(std::span<const PositionRun> documents, const at::Device& device);

// Shapes and errors are attention.h's, but for the saved statistics, which hold those of each document's queries one
// after another, and for dropout, which there is none of. On a GPU flash attention of whole sequences is one call for
// all documents, whose statistics are in the kernel's layout.
AttentionOutput document_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                           const DocumentSetting& setting);

AttentionGradients document_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                               const at::Tensor& value, const AttentionOutput& saved,
                                               const DocumentSetting& setting);

}  // namespace llmtrain::kernels

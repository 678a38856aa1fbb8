// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "kernels/attention/document_pieces.h"
#include "kernels/sequence_part.h"

namespace llmtrain::kernels {

// Documents that share sequences: the rows of all whole sequences, [B·S, …], count as one list, of which each document
// is a run.
struct RowDocuments {
  std::span<const PositionRun> runs{};  // they cover all rows in order; none reaches over the end of a sequence
  at::Tensor starts{};                  // document_starts(); undefined: made in the call
  // document_pieces() of the queries at hand, where they are a part; null: made in the call.
  const DocumentPieces* pieces = nullptr;
};

// Where the documents begin, and the end of the last: int32 [documents + 1], on the device, whose kernels read it
// there. Once per micro-batch is enough. Undefined on a CPU, which has no use for it. The device's stream takes it from
// pinned memory: the host does not wait.
at::Tensor document_starts(std::span<const PositionRun> documents, const at::Device& device);

}  // namespace llmtrain::kernels

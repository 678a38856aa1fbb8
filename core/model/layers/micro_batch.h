// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/random/dropout.h"
#include "kernels/sequence_part.h"

namespace llmtrain {

class Fp8History;
class Fp8Statistics;
class KeyValueCache;
class TokenChoices;

// One micro-batch on its way through the stages: the tokens, and its position in the run, which is all that dropout and
// the scale of the loss depend on.
struct MicroBatch {
  at::Tensor tokens;   // int64 [B·S], sequences back to back
  at::Tensor targets;  // int64 [B·S]
  // Where some losses do not count: int64 indices of the rows whose losses do; the other losses are 0 and have no
  // gradients, and their targets are not read. Undefined: all rows.
  at::Tensor counted_rows;
  // Where several documents share a sequence: the documents, which cover all rows of the whole sequences in order, and
  // the position of each row at hand in its document (int64 [B·S]). Attention stays within them. Empty and undefined: a
  // sequence is one document.
  std::vector<kernels::PositionRun> documents;
  at::Tensor positions;
  at::Tensor document_starts;  // kernels::document_starts() of them
  std::int64_t batch = 0;
  std::int64_t sequence = 0;     // tokens of each sequence on this rank
  std::int64_t kept_tokens = 0;  // of each sequence, in layers that drop tokens; 0: all
  kernels::SequencePart part;    // which tokens these are, where ranks share the sequences
  std::int64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  // index of the first sequence within the global batch
  double loss_scale = 1;          // 1 / tokens of the global batch that count: the loss is their mean
  double backward_scale = 1;      // fp16's loss scale: what the backward computes is multiplied by it
  // In a pass that computes new tokens of sequences: what is known of the earlier ones; outlives the pass. Such a pass
  // is an evaluation, and one sequence as far as the fields above say.
  KeyValueCache* cache = nullptr;
  Fp8Statistics* fp8_statistics = nullptr;  // takes what is cast to FP8 in this pass; null: nothing does
  // Takes the experts that tokens choose in this pass, if it is of training, in layers that see all of them; null:
  // nothing does.
  TokenChoices* token_choices = nullptr;
  // In training with delayed scaling: has the scales of FP8 products, and takes what the next ones follow from.
  Fp8History* fp8_history = nullptr;
  at::Tensor logit_rows;  // int64: the rows whose logits are asked for; undefined: all
};

// Whether a forward is followed by a backward. Evaluation keeps no activations and has no dropout.
enum class ForwardMode { training, evaluation };

// The dropout of one site for this micro-batch; `elements_per_sample` places it in the unsharded tensor.
inline kernels::Dropout dropout_at(const MicroBatch& micro, double probability, std::uint64_t site,
                                   std::int64_t elements_per_sample) {
  // The key depends on the step but not on the micro-batch: the sample's index in the global batch tells micro-batches
  // apart, however the batch is split.
  return {probability, kernels::dropout_key(micro.seed, micro.step, site), micro.first_sample * elements_per_sample};
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/model/pass/batch.h"
#include "kernels/random/dropout.h"

namespace llmtrain {

class Fp8History;
class Fp8Statistics;
class KeyValueCache;
class PassRouting;
class TokenChoices;

// What a pass is for. Training forwards are followed by a backward; the others keep no activations and have no dropout.
// In prediction a rank has whole sequences, whatever context ranks there are, and the head returns logits.
enum class PassMode { training, evaluation, prediction };

// What passes are recorded in; each outlives them. Null: nothing is.
struct Recorders {
  Fp8Statistics* fp8_statistics = nullptr;  // takes what is cast to FP8
  TokenChoices* token_choices = nullptr;  // in training, the experts that tokens choose in layers that see all of them
  Fp8History* fp8_history = nullptr;  // with delayed scaling: has the scales of FP8 products, and what they follow from
};

// What a pass through the stages is given besides its samples: all that dropout, routing and gradients depend on.
struct PassContext {
  PassMode mode = PassMode::training;
  std::int64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  // index of the first sequence within the global batch
  std::int64_t kept_tokens = 0;   // of each sequence, in layers that drop tokens; 0: all
  // By loss term of rows (Graph::row_losses()), the gradient at each of its rows' losses: the term's coefficient and
  // fp16's loss scale, divided by the weight of the global batch. A decoder has one, whose weight is the number of
  // tokens that count.
  std::vector<double> loss_gradients{1};
  double label_smoothing = 0;  // of targets, in training (core/body/primitives/cross_entropy.h)
  double backward_scale = 1;   // fp16's loss scale: what the backward computes is multiplied by it
  double batch_rows = 1;       // rows of the global batch, whatever counts in a loss
  // In prediction, whether heads return the rows that they make logits of in place of these: a decoder's after its
  // final norm. transformers calls them last_hidden_state.
  bool returns_hidden_rows = false;
  KeyValueCache* cache = nullptr;  // in prediction, what is known of earlier tokens; outlives the pass, of one sequence
  PassRouting* routing = nullptr;  // takes the experts of all tokens, or says which they are; outlives the pass
  Recorders recorders{};

  // Whether experts drop no token, whatever their capacity: what rows get does not depend on those computed with them.
  // True with a cache.
  bool keeps_all_tokens = false;

  bool trains() const { return mode == PassMode::training; }

  // The share of the global batch that these rows are, times fp16's loss scale: what scales losses within blocks.
  double batch_share(std::int64_t rows) const { return 1 / batch_rows * backward_scale * static_cast<double>(rows); }

  // Sets fp16's loss scale, in place of the one that is set.
  void set_backward_scale(double scale) {
    for (double& gradient : loss_gradients) gradient *= scale / backward_scale;
    backward_scale = scale;
  }
  // What makes a term, times its coefficient, of the sum of its rows' losses in the global batch.
  double loss_factor(std::size_t term) const { return loss_gradients[term] / backward_scale; }
};

// What goes through the stages in one pass.
struct PassInput {
  Batch batch;
  PassContext context;
};

// The dropout of one site in this pass; `elements_per_sample` places it in the unsharded tensor.
inline kernels::Dropout dropout_at(const PassContext& pass, double probability, std::uint64_t site,
                                   std::int64_t elements_per_sample) {
  // The key depends on the step but not on the micro-batch: the sample's index in the global batch tells micro-batches
  // apart, however the batch is split.
  return {probability, kernels::dropout_key(pass.seed, pass.step, site), pass.first_sample * elements_per_sample};
}

}  // namespace llmtrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain::kernels {

// losses[t] = log Σ_v exp(logits[t, v]) − logits[t, targets[t]], fp32 (float64 for float64 logits). targets is int64
// [T]. Throws Error(bad_data) for a target outside [0, V), before anything is changed; on a GPU targets must be valid,
// and nothing waits for it.
at::Tensor cross_entropy_forward(const at::Tensor& logits, const at::Tensor& targets);

// The same, and logits becomes its own gradient: scale·(softmax(logits) − one_hot(targets)), rounded to its dtype.
// One buffer, no fp32 copy: the caller passes a chunk of rows at a time.
at::Tensor cross_entropy_forward_backward_(at::Tensor& logits, const at::Tensor& targets, double scale);

// The same with the columns of the vocabulary split over several ranks (Shoeybi et al., arXiv 1909.08053, section 3):
// each rank computes the statistics of its columns, the ranks combine them, and each computes the gradient of its
// columns.
struct VocabularySlice {
  std::int64_t begin = 0;  // id of the first column
  std::int64_t whole = 0;  // size of the vocabulary
};

// [T, 3] fp32 (float64 for float64 logits), per row: the largest logit, Σ exp(logit − largest), and the target's logit,
// 0 where it is in another slice. logits [T, columns] may have no columns; targets are ids of the whole vocabulary.
// Throws Error(bad_data) for a target outside [0, slice.whole), as above.
at::Tensor cross_entropy_statistics(const at::Tensor& logits, const at::Tensor& targets, const VocabularySlice& slice);

// Combines the statistics of all slices, [slices, T, 3], into those of the whole rows, [T, 3]; sums run in the order of
// the slices.
at::Tensor join_cross_entropy_statistics(const at::Tensor& of_slices);

// losses [T] from whole rows' statistics.
at::Tensor cross_entropy_losses(const at::Tensor& statistics);

// logits becomes its own gradient, as above.
void cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, const VocabularySlice& slice,
                             const at::Tensor& statistics, double scale);

}  // namespace llmtrain::kernels

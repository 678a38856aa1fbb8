// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/tensor_gradients.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/scalar_tensor.h>

#include "kernels/reduction.h"
#include "parallel/shard/states/flat_piece.h"

namespace llmtrain {
namespace {

void append(std::vector<FlatInterval>& intervals, const FlatInterval& interval) {
  if (interval.count() == 0) return;
  // Adjacent parameters merge, so that fewer slices have to be packed.
  if (!intervals.empty() && intervals.back().end == interval.begin) {
    intervals.back().end = interval.end;
  } else {
    intervals.push_back(interval);
  }
}

// Packs all intervals into one collective, because they are many and short (norms and biases).
template <class Sum>
void sum_packed(const at::Tensor& gradients, const std::vector<FlatInterval>& intervals, const FlatInterval& owned,
                Sum sum) {
  if (intervals.empty()) return;
  std::vector<at::Tensor> slices;
  for (const FlatInterval& interval : intervals) slices.push_back(piece_of(gradients, interval, owned));
  const at::Tensor packed = at::cat(slices);
  sum(packed);
  std::int64_t begin = 0;
  for (const at::Tensor& part : slices) {
    part.copy_(packed.narrow(0, begin, part.numel()));
    begin += part.numel();
  }
}

}  // namespace

TensorGradients::TensorGradients(const Graph& graph, const ParameterStore& store, const TensorParallel& ranks,
                                 FlatInterval owned)
    : ranks_(ranks), owned_(owned) {
  for (const FlatRange& range : store.ranges()) {
    const FlatInterval here = intersection({range.begin, range.end}, owned);
    // Replicated parameters count once in the gradient norm: on the first of their ranks.
    if (store.part(range.parameter).copy == 0) append(counted_, here);
    // With split rows each rank sees gradients of its rows only, so replicated parameters need a sum.
    const bool splits_sequence = ranks.rows() == ActivationRows::split;
    const Parameter& parameter = graph.parameters[range.parameter];
    switch (gradient_sum(parameter, ranks.ranks(), splits_sequence)) {
      case GradientSum::tensor_group:
        append(summed_, here);
        break;
      case GradientSum::copies:
        append(summed_over_copies_[copies_of(parameter.split, ranks.ranks())], here);
        break;
      case GradientSum::none:
        break;
    }
  }
}

void TensorGradients::sum(const at::Tensor& gradients) const {
  sum_packed(gradients, summed_, owned_, [&](const at::Tensor& packed) { ranks_.sum(packed); });
  for (const auto& [copies, intervals] : summed_over_copies_)
    sum_packed(gradients, intervals, owned_,
               [&, number = copies](const at::Tensor& packed) { ranks_.sum_copies(packed, number); });
}

at::Tensor TensorGradients::squares(const at::Tensor& gradients, FlatInterval part) const {
  at::Tensor sum = at::scalar_tensor(0, at::kDouble);
  for (const FlatInterval& interval : counted_) {
    const FlatInterval here = intersection(interval, part);
    if (here.count() > 0) sum = kernels::sum_of_squares_there(piece_of(gradients, here, owned_)).add_(sum);
  }
  return sum;
}

}  // namespace llmtrain

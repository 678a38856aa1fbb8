// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/operators.h"

#include <ATen/ops/arange.h>

namespace llmtrain::kernels::reference {
namespace {

at::Tensor position_indices(const at::Tensor& tokens, std::int64_t sequence_length) {
  return at::arange(tokens.numel(), tokens.options()).remainder(sequence_length);
}

void add_rows(at::Tensor& gradient, const at::Tensor& index, const at::Tensor& dy) {
  // The gradient may be wider than dy, and index_put_ takes one type.
  gradient.index_put_({index}, dy.to(gradient.scalar_type()), true);
}

}  // namespace

at::Tensor embedding_forward(const at::Tensor& tokens, const at::Tensor& table,
                             const std::optional<at::Tensor>& positions, std::int64_t sequence_length) {
  at::Tensor y = table.index_select(0, tokens);
  if (positions) y.add_(positions->index_select(0, position_indices(tokens, sequence_length)));
  return y;
}

// index_put_ with accumulation sorts its indices first: unlike index_add_, its result is reproducible on a GPU as well.
void embedding_backward(const at::Tensor& dy, const at::Tensor& tokens, at::Tensor& dtable,
                        std::optional<at::Tensor> dpositions, std::int64_t sequence_length) {
  add_rows(dtable, tokens, dy);
  if (dpositions) add_rows(*dpositions, position_indices(tokens, sequence_length), dy);
}

}  // namespace llmtrain::kernels::reference

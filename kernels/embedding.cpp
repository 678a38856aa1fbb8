// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "kernels/cuda_operators/embedding.h"
#include "kernels/reference/operators.h"
#include "kernels/row_groups.h"
#include "kernels/vector/embedding.h"
#include "kernels/vector/level.h"
#include "kernels/vector_dispatch.h"

namespace llmtrain::kernels {
namespace {

template <class Element>
vector::EmbeddingKernels<Element> embedding_loops() {
  return vector::at_level([]<int level> { return vector::embedding_kernels_for<level, Element>(); });
}

bool is_vector_array_of(const std::optional<at::Tensor>& x, at::ScalarType type) {
  return !x || (is_vector_array(*x) && x->scalar_type() == type);
}

// Invalid ids would make the loops below access memory outside of the tables.
void check_tokens(const at::Tensor& tokens, std::int64_t vocabulary) {
  const auto* ids = tokens.const_data_ptr<std::int64_t>();
  const auto* bad =
      std::find_if(ids, ids + tokens.numel(), [=](std::int64_t id) { return id < 0 || id >= vocabulary; });
  if (bad == ids + tokens.numel()) return;
  throw Error(ExitCode::bad_data, "token " + std::to_string(bad - ids) + " of the batch has the id " +
                                      std::to_string(*bad) +
                                      "; ids must be in [0, vocab_size = " + std::to_string(vocabulary) +
                                      "): check that the data was made with the recipe's tokenizer");
}

void check_positions(const at::Tensor& positions, std::int64_t tokens, std::int64_t sequence_length) {
  const std::int64_t used = std::min(tokens, sequence_length);
  if (sequence_length > 0 && used <= positions.size(0)) return;
  throw Error(ExitCode::internal_error, "embedding: sequence_length is " + std::to_string(sequence_length) +
                                            "; it must be in [1, " + std::to_string(positions.size(0)) +
                                            "], the rows of the position table");
}

// The gradient's type is independent of dy's: fp32 sums of bf16 gradients are the usual case.
template <class Element>
void add_rows(const RowGroups& groups, const at::Tensor& dy, const at::Tensor& gradient) {
  const auto arrays = [&]<class Gradient> {
    return vector::RowSumArrays<Element, Gradient>{.dy = elements<Element>(dy),
                                                   .gradient = mutable_elements<Gradient>(gradient),
                                                   .targets = groups.targets.data(),
                                                   .offsets = groups.offsets.data(),
                                                   .order = groups.order.data(),
                                                   .groups = static_cast<std::int64_t>(groups.targets.size()),
                                                   .width = dy.size(-1)};
  };
  if (gradient.scalar_type() == at::kFloat) {
    embedding_loops<Element>().add_rows_fp32(arrays.template operator()<float>());
  } else {
    embedding_loops<Element>().add_rows_bf16(arrays.template operator()<std::uint16_t>());
  }
}

}  // namespace

at::Tensor embedding_forward(const at::Tensor& tokens, const at::Tensor& table,
                             const std::optional<at::Tensor>& positions, std::int64_t sequence_length) {
  if (!is_vector_array(table) || !is_vector_array_of(positions, table.scalar_type())) {
    return reference::embedding_forward(tokens, table, positions, sequence_length);
  }
  check_tokens(tokens, table.size(0));
  if (positions) check_positions(*positions, tokens.numel(), sequence_length);
  const at::Tensor y = at::empty({tokens.numel(), table.size(1)}, table.options());
  with_element_of(table, [&]<class Element> {
    embedding_loops<Element>().forward({.tokens = tokens.const_data_ptr<std::int64_t>(),
                                        .table = elements<Element>(table),
                                        .positions = positions ? elements<Element>(*positions) : nullptr,
                                        .y = mutable_elements<Element>(y),
                                        .count = tokens.numel(),
                                        .width = table.size(1),
                                        .sequence_length = sequence_length});
  });
  return y;
}

void embedding_backward(const at::Tensor& dy, const at::Tensor& tokens, at::Tensor& dtable,
                        std::optional<at::Tensor> dpositions, std::int64_t sequence_length) {
  if (has_cuda_embedding_backward(dy, dtable, dpositions)) {
    cuda_embedding_backward(dy, tokens, dtable, dpositions, sequence_length);
    return;
  }
  if (!is_vector_array(dy) || !is_vector_array(dtable) || (dpositions && !is_vector_array(*dpositions))) {
    reference::embedding_backward(dy, tokens, dtable, dpositions, sequence_length);
    return;
  }
  check_tokens(tokens, dtable.size(0));
  if (dpositions) check_positions(*dpositions, tokens.numel(), sequence_length);
  // Rows that add to the same target are grouped, so that one thread adds them in a fixed order, without atomic
  // operations.
  const RowGroups by_token = group_rows(tokens.const_data_ptr<std::int64_t>(), tokens.numel());
  with_element_of(dy, [&]<class Element> {
    add_rows<Element>(by_token, dy, dtable);
    // Positions repeat with every sequence.
    if (dpositions) add_rows<Element>(group_rows_by_period(tokens.numel(), sequence_length), dy, *dpositions);
  });
}

}  // namespace llmtrain::kernels

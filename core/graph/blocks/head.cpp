// SPDX-License-Identifier: Apache-2.0
#include "core/graph/blocks/head.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>

#include "core/graph/blocks/graph_writer.h"
#include "core/graph/operators/operator_writer.h"

namespace llmtrain {
namespace {

// `vocabulary`: the tokens whose logits this rank computes.
double chunk_rows(const OperatorWriter& writer, std::int64_t vocabulary) {
  const LocalShape& shape = writer.shape();
  return static_cast<double>(logits_chunk_rows(static_cast<std::int64_t>(shape.tokens), vocabulary,
                                               static_cast<std::int64_t>(shape.element),
                                               writer.setting().program.device));
}

// core/model: one chunk of logits with the gradient of its input, the normed input, and every row's loss.
double chunk_working(const OperatorWriter& writer, std::int64_t vocabulary) {
  const LocalShape& shape = writer.shape();
  const double rows = chunk_rows(writer, vocabulary);
  return shape.element * shape.residual() + fp32_bytes * shape.tokens +
         shape.element * rows * (static_cast<double>(vocabulary) + shape.hidden);
}

// The bytes of each logit that other programs keep from the forward.
double kept_logit_bytes(const OperatorWriter& writer) {
  switch (writer.setting().program.kept_logits) {
    case KeptLogits::widened:
      return fp32_bytes;
    case KeptLogits::narrow:
    case KeptLogits::in_place:
      return writer.shape().element;
    case KeptLogits::chunks:
      return 0;
  }
  return 0;
}

// Other programs' tensors of the logits' size beside the kept one, while the loss runs in either direction.
void hold_logits(const OperatorWriter& writer, double elements, Operator& loss) {
  const double element = writer.shape().element;
  const KeptLogits kept = writer.setting().program.kept_logits;
  const double unwidened = element < fp32_bytes ? element * elements : 0;
  // The product's own result, where it is narrower, and the copy of which the softmax is taken.
  if (kept == KeptLogits::widened) loss.forward_working = unwidened + fp32_bytes * elements;
  const double gradient = kept == KeptLogits::in_place ? 0 : unwidened;
  // While the loss's backward holds the copies, the gradients of narrower logits and of the head's input do not exist
  // yet.
  const double copies = writer.setting().program.loss_copies * fp32_bytes * elements;
  loss.backward_working = std::max(loss.backward_working + gradient, copies);
}

void save_for_head(const OperatorWriter& writer, const NormSettings& settings, Operator& norm) {
  const LocalShape& shape = writer.shape();
  const double residual = shape.element * shape.residual();
  writer.save_input(norm);
  if (writer.is_own())
    writer.save(norm, "statistics", OperatorWriter::statistics_bytes(settings, shape.split_tokens), Recompute::full);
  // core/model computes the loss and its gradient in the forward, so the normed input's place is taken by its gradient.
  writer.save(norm, writer.is_own() ? "normed_gradient" : "normed", residual, Recompute::full);
}

}  // namespace

void write_graph(GraphWriter& writer, const HeadSettings& head) {
  writer.read_value();
  if (head.further > 0) {
    writer.raise(fmt::format("prediction_{}_loss", head.further), head.coefficient, true);
    writer.add_norm("final_norm", head.norm);
    return writer.share("head", "head.weight", "head.weight");
  }
  writer.raise(loss_names::head, head.coefficient, true);
  writer.leave_out_block_name();
  writer.add_norm("final_norm", head.norm);
  if (writer.model().tie_embeddings) return writer.share("embedding", "token.weight", "head.weight");
  writer.add_table("head.weight", head.vocabulary, padded_rows(head.vocabulary), true);
}

// The loss ends the model, so core/model computes its gradient chunk by chunk in the forward. Other programs keep the
// logits, most of them in fp32.
void write_operators(OperatorWriter& writer, const HeadSettings& head) {
  const LocalShape& shape = writer.shape();
  const std::int64_t own = local_units({Split::Kind::padded, 0, head.vocabulary}, writer.setting().shards.tensor);
  const auto vocabulary = static_cast<double>(own);
  const double logits_elements = shape.tokens * vocabulary;
  save_for_head(writer, head.norm, writer.norm("norm", head.norm));
  // FP8 levels leave the head in the compute type (arXiv 2310.18313).
  Operator& logits = writer.product("logits", {shape.tokens, vocabulary, shape.hidden}, "head.weight");
  // Each tensor rank computes the logits of its part of the vocabulary from all rows.
  writer.exchange_rows(logits, Direction::forward, ends_exchange, Exposure::whole);
  if (!writer.is_own()) writer.save(logits, "logits", kept_logit_bytes(writer) * logits_elements, Recompute::full);

  Operator& loss = writer.add("loss", OperatorKind::cross_entropy);
  loss.forward.elements = loss.backward.elements = logits_elements;
  // Three statistics per row from every tensor rank: largest logit, sum and the target's logit.
  const double statistics = 3 * fp32_bytes * shape.tokens * static_cast<double>(writer.setting().shards.tensor);
  writer.exchange(loss, RankAxis::tensor, Collective::all_gather, Direction::forward, "cross-entropy", statistics);
  loss.backward_working = shape.element * shape.residual();
  if (writer.is_own() || writer.setting().program.kept_logits == KeptLogits::chunks) {
    loss.forward_working = chunk_working(writer, own);
    return;
  }
  hold_logits(writer, logits_elements, loss);
}

}  // namespace llmtrain
